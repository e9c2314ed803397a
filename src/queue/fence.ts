/**
 * The fence of versions: a database that another wire version has claimed is refused before anything is written.
 *
 * Read on an isolate's first contact with a database and again by maintenance, before it visits anything. Only an
 * acceptance is remembered; a refusal is looked at anew by the next request, so that mending the database mends the
 * service.
 */
import { GLOBAL_KEYS, wireMatches } from '../protocol/keys.ts'
import { type RedisPort, type Reply, repeatIfLost } from './redis.ts'
import { optionalText } from './replies.ts'
import { run } from './scripts.ts'

/** The database belongs to another wire version. */
export class WireVersionError extends Error {
  override readonly name = 'WireVersionError'
  constructor() {
    super('the database bears a wire version that this deployment does not accept')
  }
}

export type Fence = {
  /** Makes sure once per isolate that the database is ours to use. */
  pass(): Promise<void>
  /** Judges a reply to GET of the version, read by the caller in a round trip of its own. */
  judge(version: Reply | undefined): void
}

export function createFence(
  port: RedisPort,
  { accept, claim }: { accept: readonly string[]; claim: string | undefined },
): Fence {
  let passed = false

  function judge(reply: Reply | undefined): void {
    const version = optionalText(reply)
    // Where a version is to be claimed, an absent one is ours to use and has yet to be claimed.
    passed =
      version === undefined ? claim === undefined : accept.some((pattern) => wireMatches(pattern, version))
    if (!passed && version !== undefined) throw new WireVersionError()
  }

  return {
    judge,
    async pass() {
      if (passed) return
      const read = ['GET', GLOBAL_KEYS.version]
      const claiming = claim === undefined ? [] : [['SET', GLOBAL_KEYS.version, claim, 'NX']]
      const { result } = await repeatIfLost(() => run(port, [...claiming, read]))
      judge(result.at(-1))
    },
  }
}
