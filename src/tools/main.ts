/** The entry of npm's scripts: `node src/tools/main.ts <command>`. */

import { runProgram } from './program.ts'

// Whoever reads our output may have seen enough, as `head` has.
for (const stream of [process.stdout, process.stderr])
  stream.on('error', (error: NodeJS.ErrnoException) => process.exit(error.code === 'EPIPE' ? 0 : 1))

// With 0 the command may have set an exit code of its own: that of wrangler, or of a conformance that failed.
const code = await runProgram(process.argv.slice(2))
// What fails may leave something on its way that nobody waits for, such as the build of the Worker. It ends with us,
// and we when all is written.
if (code !== 0) process.stdout.write('', () => process.exit(code))
