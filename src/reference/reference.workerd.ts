/** The reference of the API in the Worker: read from the static asset that the build has made, and kept. */
import { ProblemError } from '../http/problem.ts'
import type { createReference as createMadeReference, Reference } from './reference.ts'

type Assets = { fetch(url: string): Promise<Response> }

const isAssets = (binding: unknown): binding is Assets =>
  typeof binding === 'object' && binding !== null && 'fetch' in binding

async function read(assets: unknown): Promise<Reference> {
  // The host is nobody's: the binding looks at the path only.
  const response = isAssets(assets) ? await assets.fetch('https://assets/docs/reference.json') : undefined
  if (response?.ok) return response.json()
  throw new ProblemError('not_found', 'This deployment was made without its reference.')
}

export const createReference: typeof createMadeReference = () => {
  let known: Reference | undefined
  return async (bindings) => {
    known ??= await read(bindings?.['ASSETS'])
    return known
  }
}
