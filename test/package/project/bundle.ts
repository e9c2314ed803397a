/** A user's tool that reads the scripts. Run by package.test.ts, where the package is installed. */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { MANIFEST, SCRIPTS, type ScriptContract } from 'echomq-edge/bundle'

const sha1 = (text: string | Buffer): string => createHash('sha1').update(text).digest('hex')
const file = (name: string): Buffer => readFileSync(new URL(import.meta.resolve(`echomq-edge/lua/${name}`)))

const contracts: ScriptContract[] = [...MANIFEST.core, ...MANIFEST.extensions]
const sources = new Map(Object.values(SCRIPTS).map((script) => [script.name as string, script]))
const wrong = contracts.filter(
  (contract) =>
    sha1(file(contract.file)) !== contract.sha1 ||
    sources.get(contract.name)?.sha1 !== contract.sha1 ||
    sha1(sources.get(contract.name)?.source ?? '') !== contract.sha1,
)
console.log(
  JSON.stringify({
    claim: SCRIPTS.claim.sha1,
    scripts: contracts.length === sources.size,
    manifest: JSON.stringify(JSON.parse(file('manifest.json').toString())) === JSON.stringify(MANIFEST),
    wrong,
  }),
)
