/** The API tokens of the local stack, each for all queues. They are public and must never reach a deployment. */

import { createHash } from 'node:crypto'
import type { Scope, TokenEntry } from '../protocol/tokens.ts'

export const DEV_TOKENS = {
  producer: 'dev-producer',
  consumer: 'dev-consumer',
  observer: 'dev-observer',
  operator: 'dev-operator',
} as const

export type DevTokens = typeof DEV_TOKENS

const SCOPES: Readonly<Record<keyof DevTokens, readonly Scope[]>> = {
  producer: ['produce'],
  consumer: ['consume'],
  observer: ['observe', 'observe:payload'],
  operator: ['operate'],
}

/** Returns the value of `EMQ_TOKENS` that accepts the development tokens. */
export function devTokensSecret(): string {
  const roles = Object.keys(DEV_TOKENS) as (keyof DevTokens)[]
  const entries = roles.map((role): TokenEntry => {
    const name = DEV_TOKENS[role]
    const sha256 = createHash('sha256').update(name).digest('hex')
    return { name, sha256, scopes: SCOPES[role], queues: ['*'] }
  })
  return JSON.stringify(entries)
}
