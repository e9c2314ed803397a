/** The manifest of the scripts: what a client in any language must know of each of them. Types only. */

export type ScriptContract = {
  readonly name: string
  /** Relative to the manifest. */
  readonly file: string
  readonly sha1: string
  readonly bytes: number
  readonly keys: readonly string[]
  /** Keys that a caller may leave out, behind all others. */
  readonly optionalKeys?: readonly string[]
  /** Keys that follow once for each job or item. */
  readonly keysEach?: readonly string[]
  readonly args: readonly string[]
  /** Arguments that are repeated for each job or item. */
  readonly argsEach?: readonly string[]
  readonly replies: readonly string[]
  readonly repeatable: boolean
}

export type Manifest = {
  readonly version: 1
  readonly core: readonly ScriptContract[]
  readonly extensions: readonly ScriptContract[]
  readonly refusals: Readonly<Record<string, string>>
}
