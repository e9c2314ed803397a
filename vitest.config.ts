import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    globalSetup: 'test/support/programs.ts',
    testTimeout: 20_000,
    hookTimeout: 120_000,
    // Leases of some ms and a machine that others load: a test that fails there is played once more.
    retry: process.env['CI'] ? 1 : 0,
    // CI reads the runner's own count from the file.
    reporters: process.env['CI']
      ? ['default', ['json', { outputFile: 'dist/test-results.json' }]]
      : ['default'],
  },
})
