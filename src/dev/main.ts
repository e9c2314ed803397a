/** The entry of npm's scripts: `node src/dev/main.ts <command>`. */

import { runProgram } from './program.ts'

// A command may have set an exit code of its own: that of wrangler, or of a conformance that failed.
process.exitCode = (await runProgram(process.argv.slice(2))) || process.exitCode
