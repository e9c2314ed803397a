#!/usr/bin/env node
/** The package's command: `npx echomq-edge <command>`. */
import { runCommandLine } from './program.ts'

// A reader such as `head` may close the pipe early.
process.stdout.on('error', (error: NodeJS.ErrnoException) => process.exit(error.code === 'EPIPE' ? 0 : 1))

const code = await runCommandLine(process.argv.slice(2))
process.exitCode ??= code
