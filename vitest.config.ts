import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    globalSetup: 'test/support/programs.ts',
    testTimeout: 20_000,
    hookTimeout: 120_000,
    // Leases of a few ms can lapse on a loaded machine. CI retries once and lists the tests that needed it.
    retry: process.env['CI'] ? 1 : 0,
    // .ci/run reads the count and the retried tests from the file.
    reporters: process.env['CI']
      ? ['default', ['json', { outputFile: 'dist/test-results.json' }]]
      : ['default'],
  },
})
