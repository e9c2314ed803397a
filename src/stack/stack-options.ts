/** The options of a stack, and the check that they fit together. The command `dev` reads this without the stack. */

import { parseEnv } from '../env.ts'
import { devTokensSecret } from './dev-tokens.ts'
import { LOCALHOST } from './ports.ts'
import type { BuiltWorker } from './wrangler.ts'

/** Variables that begin so configure the stack. They do not reach the Worker. */
export const OWN_VARIABLES = 'EMQ_DEV_'

export type StackOptions = {
  /** Of the Worker. Default: 8787, or a free one when that is busy; 0: any free one. */
  readonly port?: number | undefined
  /** Of the bridge. Default: 8079, or a free one when that is busy; 0: any free one. */
  readonly restPort?: number | undefined
  /** A running Redis. Default: the stack starts one. */
  readonly redisUrl?: string | undefined
  /** An Upstash database, or another with its protocol, instead of Redis and bridge. Needs `restToken`. */
  readonly restUrl?: string | undefined
  /** Default: for the bridge a random one. */
  readonly restToken?: string | undefined
  /** A folder in which the embedded Redis keeps its data. Default: it keeps none. */
  readonly data?: string | undefined
  /** Suppresses the log of the Worker. */
  readonly quiet?: boolean | undefined
  /** Enables the test mode of the bridge. */
  readonly testMode?: boolean | undefined
  /** Variables for the Worker: only names that begin with `EMQ_` reach it. Default: none. */
  readonly env?: Readonly<Record<string, string | undefined>> | undefined
  /** Whether the scheduled handler runs at the start and once a minute. Default: true. */
  readonly cron?: boolean | undefined
  /** Default: the wrangler.toml of the project. */
  readonly wranglerConfig?: string | undefined
  /** A built Worker. Default: the Worker of `wranglerConfig`, built now. */
  readonly worker?: BuiltWorker | undefined
}

/** Says in one sentence which options contradict each other or are invalid; undefined when all is well. */
export function contradictionIn(options: StackOptions): string | undefined {
  const { restUrl, restToken, restPort, redisUrl, data } = options
  if (restUrl !== undefined) {
    if (restToken === undefined) return 'A REST URL needs its token.'
    if (redisUrl !== undefined) return 'Use either a REST URL or a Redis URL, not both.'
    if (restPort !== undefined)
      return 'A REST URL replaces the bridge, so a port of the bridge has no effect.'
  }
  if (data !== undefined && (restUrl ?? redisUrl) !== undefined)
    return 'A data folder is for the embedded Redis only.'

  // The Worker's own parser checks the URL and the token.
  const parsed = parseEnv({
    UPSTASH_REDIS_REST_URL: restUrl ?? `http://${LOCALHOST}`,
    UPSTASH_REDIS_REST_TOKEN: restToken ?? 'unused',
    EMQ_TOKENS: devTokensSecret(),
    EMQ_LOCAL_STACK: '1',
  })
  const [problem] = parsed.ok ? [] : parsed.problems
  return problem
    ?.replace('UPSTASH_REDIS_REST_URL', 'The REST URL')
    .replace('UPSTASH_REDIS_REST_TOKEN', 'The REST token')
    .concat('.')
}
