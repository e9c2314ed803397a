/** Captures what the code under test logs as an error, so that tests can read it and their output stays clean. */
import { afterEach, beforeEach, vi } from 'vitest'

/** Call at the top of a test file. `text` is what the running test has logged. */
export function capturedLog(): { readonly text: string } {
  let lines: string[] = []
  beforeEach(() => {
    lines = []
    vi.spyOn(console, 'error').mockImplementation((...values: unknown[]) => {
      // An error is logged with its stack and its causes.
      lines.push(values.map((value) => (value instanceof Error ? describe(value) : String(value))).join(' '))
    })
  })
  afterEach(() => {
    vi.restoreAllMocks()
  })
  return {
    get text() {
      return lines.join('\n')
    },
  }
}

const describe = (error: Error): string =>
  `${error.stack}${error.cause === undefined ? '' : ` caused by ${error.cause instanceof Error ? describe(error.cause) : error.cause}`}`
