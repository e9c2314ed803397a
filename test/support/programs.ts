/** Before all tests: installs the programs that tests start, where this process may install packages. */
import { installPackages, which } from '../../src/stack/debian.ts'

const PACKAGE_OF = {
  'redis-server': 'redis-server',
  chromium: 'chromium',
  go: 'golang-go',
  python3: 'python3',
}

const missingPrograms = async (): Promise<(keyof typeof PACKAGE_OF)[]> => {
  const programs = Object.keys(PACKAGE_OF) as (keyof typeof PACKAGE_OF)[]
  const found = await Promise.all(programs.map((program) => which(program, process.env['PATH'] ?? '')))
  return programs.filter((_, nth) => found[nth] === undefined)
}

export default async function setup(): Promise<void> {
  const missing = await missingPrograms()
  if (missing.length === 0) return
  await installPackages(
    missing.map((program) => PACKAGE_OF[program]),
    `The tests need ${missing.join(', ')}`,
  )
  const still = await missingPrograms()
  if (still.length > 0) throw new Error(`The tests need ${still.join(', ')} on PATH. Install them.`)
}
