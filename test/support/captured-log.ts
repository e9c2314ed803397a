/** What the code under test logs as an error, kept out of the test's own output and there to be looked at. */
import { afterEach, beforeEach, vi } from 'vitest'

/** Call at the top of a test file; the texts are those since the test began. */
export function capturedLog(): { readonly text: string } {
  let lines: string[] = []
  beforeEach(() => {
    lines = []
    vi.spyOn(console, 'error').mockImplementation((...values: unknown[]) => {
      // An error with all that it drags along: its stack and its causes.
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
