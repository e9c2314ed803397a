/** The entry of the npm scripts: `node src/tools/main.ts <command>`. */

import { runProgram } from './program.ts'

// A reader such as `head` may close the pipe early.
for (const stream of [process.stdout, process.stderr])
  stream.on('error', (error: NodeJS.ErrnoException) => process.exit(error.code === 'EPIPE' ? 0 : 1))

// After 0, `process.exitCode` stands: the command may have set it.
const code = await runProgram(process.argv.slice(2))
// A failed command may have left work behind, such as the build of the Worker. Exit as soon as all output is written.
if (code !== 0) process.stdout.write('', () => process.exit(code))
