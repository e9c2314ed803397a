/**
 * The API tokens of the local stack, each for all queues. They are public: they must never reach a deployment.
 */

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

/** The value of `EMQ_TOKENS` that lets the development tokens in. */
export function devTokensSecret(): string {
  const entries = Object.entries(SCOPES).map(([role, scopes]): TokenEntry => {
    const token = DEV_TOKENS[role as keyof DevTokens]
    return { name: token, sha256: createHash('sha256').update(token).digest('hex'), scopes, queues: ['*'] }
  })
  return JSON.stringify(entries)
}
