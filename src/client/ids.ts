/**
 * Random names for claims and for idempotency keys. They do not use the clock's `random`: machines that were restored
 * from one snapshot may continue with the same numbers, and would share their jobs.
 */
export function randomName(): string {
  return crypto.getRandomValues(new Uint32Array(4)).join('-')
}
