/** The command line in this process, with its output captured: for tests that watch its requests. */
import { afterEach, beforeEach, vi } from 'vitest'
import { runCommandLine } from '../../../src/cli/program.ts'

export type Ran = { readonly code: number; readonly stdout: string; readonly stderr: string }

/** Call at the top of a test file. Returns a function that runs a command and returns what it printed. */
export function commandLine(): (args: readonly string[], env?: Record<string, string>) => Promise<Ran> {
  let output = { stdout: '', stderr: '' }
  beforeEach(() => {
    for (const name of ['stdout', 'stderr'] as const)
      vi.spyOn(process[name], 'write').mockImplementation((text) => {
        output[name] += text
        return true
      })
  })
  afterEach(() => {
    vi.restoreAllMocks()
    vi.unstubAllEnvs()
    process.exitCode = 0
  })
  return async (args, env = {}) => {
    output = { stdout: '', stderr: '' }
    process.exitCode = undefined
    for (const name of ['EMQ_URL', 'EMQ_TOKEN']) vi.stubEnv(name, env[name])
    const code = await runCommandLine(args)
    return { code: Number(process.exitCode ?? code), ...output }
  }
}
