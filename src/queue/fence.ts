/**
 * The version check: a database with a wire version that is not accepted is rejected before anything is written.
 *
 * It runs on an isolate's first contact with a database, and before maintenance sweeps. Only an acceptance is
 * remembered; after a rejection the next request reads the version again, so the service recovers with the database.
 */
import { GLOBAL_KEYS, wireMatches } from '../protocol/keys.ts'
import { type RedisPort, repeatIfLost } from './redis.ts'
import { optionalText } from './replies.ts'
import { run } from './scripts.ts'

/** The database has a wire version that is not accepted. */
export class WireVersionError extends Error {
  override readonly name = 'WireVersionError'
  constructor() {
    super('The database uses a wire version that this deployment does not accept')
  }
}

export function createFence(
  port: RedisPort,
  { accept, claim }: { accept: readonly string[]; claim: string | undefined },
) {
  let passed = false

  /** Accepts or rejects a version. An absent one is accepted, unless it has yet to be claimed. */
  function judge(version: string | undefined): void {
    passed =
      version === undefined ? claim === undefined : accept.some((pattern) => wireMatches(pattern, version))
    if (!passed && version !== undefined) throw new WireVersionError()
  }

  /** Reads the version and judges it, claiming one first when asked to. */
  async function check(claimed?: string): Promise<void> {
    const claiming = claimed === undefined ? [] : [['SET', GLOBAL_KEYS.version, claimed, 'NX']]
    const replies = await run(port, [...claiming, ['GET', GLOBAL_KEYS.version]])
    judge(optionalText(replies.at(-1)))
  }

  return {
    judge,
    check: () => check(),
    /** Checks the version once per isolate. */
    async pass(): Promise<void> {
      if (!passed) await repeatIfLost(() => check(claim))
    },
  }
}
