/** A secret for one start of the stack. */

import { randomBytes } from 'node:crypto'

export function randomToken(): string {
  return randomBytes(24).toString('hex')
}
