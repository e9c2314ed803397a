import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    testTimeout: 20_000,
    hookTimeout: 120_000,
    // CI reads the runner's own count from the file.
    reporters: process.env['CI'] ? ['default', ['json', { outputFile: 'dist/test-results.json' }]] : ['default'],
  },
})
