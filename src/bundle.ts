/**
 * The package entry `echomq-edge/bundle`: the Lua scripts and their contracts, for tools and for clients that speak to
 * Redis themselves. The same files are in the package's folder `lua/`, for those in other languages.
 *
 * `SCRIPTS.claim.sha1` is what EVALSHA takes; the source is what is sent when Redis does not know it.
 */
import manifest from '../lua/manifest.json' with { type: 'json' }
import type { Manifest } from './protocol/manifest.ts'
import { SCRIPTS as REGISTRY, type ScriptName } from './protocol/scripts.generated.ts'

export type { Manifest, ScriptContract } from './protocol/manifest.ts'
export type { ScriptName } from './protocol/scripts.generated.ts'

export type Script = {
  readonly name: ScriptName
  /** Of the source, in lower-case hex. */
  readonly sha1: string
  /** Whether it may run again after its answer was lost. */
  readonly repeatable: boolean
  readonly source: string
}

/** The scripts, byte for byte. */
export const SCRIPTS: Readonly<Record<ScriptName, Script>> = REGISTRY

/** What each script takes, answers and promises. */
export const MANIFEST = manifest as Manifest
