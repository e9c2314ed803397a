/**
 * The reference of the API, as a document and as a page: made when it is first asked for, and kept.
 *
 * The app imports it as `#reference`, and package.json says which file that is. This one is it everywhere but in the
 * Worker that wrangler builds: there `reference.workerd.ts` has it from a static asset, made by this file beforehand.
 * Making it takes the code of a generator and ten times the CPU that a request has on a free plan.
 */

import type { Route } from '../http/route.ts'
import { type DocsPage, docsPage } from './docs-page.ts'
import { openApiDocument } from './openapi.ts'

type Bindings = Readonly<Record<string, unknown>>

export type Reference = {
  /** The OpenAPI document as JSON. */
  readonly document: string
  readonly page: DocsPage
}

/** Makes the whole reference. `withViewer`: its page finds the assets of the viewer beside it. */
export async function makeReference(
  routes: readonly Route[],
  { withViewer }: { withViewer: boolean },
): Promise<Reference> {
  const document = openApiDocument(routes)
  return { document: JSON.stringify(document), page: await docsPage(document, { withViewer }) }
}

/** How the app comes by the reference of its routes. */
export function createReference(
  routes: readonly Route[],
): (bindings: Bindings | undefined) => Promise<Reference> {
  let made: Promise<Reference> | undefined
  return () => {
    made ??= makeReference(routes, { withViewer: false })
    return made
  }
}
