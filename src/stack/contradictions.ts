/** What is wrong with the options of a stack, told before anything is started. */

import { parseEnv } from '../env.ts'
import { devTokensSecret } from './dev-tokens.ts'
import { LOCALHOST } from './ports.ts'
import type { StackOptions } from './stack.ts'

/** What cannot be wanted together, or cannot be used, in one sentence; undefined when all is well. */
export function contradictionIn(options: StackOptions): string | undefined {
  const { restUrl, restToken, restPort, redisUrl, data } = options
  if (restUrl !== undefined) {
    if (restToken === undefined) return 'A REST URL needs its token.'
    if (redisUrl !== undefined) return 'Either a REST URL or a Redis URL can be used, not both.'
    if (restPort !== undefined) return 'With a REST URL there is no bridge, so it has no port either.'
  }
  if (data !== undefined && (restUrl ?? redisUrl) !== undefined)
    return 'A data folder is for the embedded Redis only.'

  // The Worker's own reader decides.
  const reading = parseEnv({
    UPSTASH_REDIS_REST_URL: restUrl ?? `http://${LOCALHOST}`,
    UPSTASH_REDIS_REST_TOKEN: restToken ?? 'ours',
    EMQ_TOKENS: devTokensSecret(),
  })
  const [problem] = reading.ok ? [] : reading.problems
  return problem
    ?.replace('UPSTASH_REDIS_REST_URL', 'The REST URL')
    .replace('UPSTASH_REDIS_REST_TOKEN', 'The REST token')
    .concat('.')
}
