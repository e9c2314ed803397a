/** The reference of the API in the Worker: read from the static assets that the build has made, and kept. */
import { type Bindings, noSuchFile, noViewer, readAsset } from './assets.ts'
import { bundledDocument } from './bundled-document.ts'
import type { createReference as createMadeReference, MadeReference } from './reference.ts'

export const createReference: typeof createMadeReference = () => {
  let known: MadeReference | undefined
  async function made(bindings: Bindings): Promise<MadeReference | undefined> {
    known ??= await (await readAsset(bindings, 'reference.json'))?.json()
    return known
  }

  return {
    async document(bindings) {
      const document = (await made(bindings))?.document ?? bundledDocument
      if (document === undefined) throw noViewer()
      return document
    },
    async page(bindings) {
      const page = (await made(bindings))?.page
      if (page === undefined) throw noViewer()
      return new Response(page.html, { headers: page.headers })
    },
    async file() {
      // Workers serve the static assets before this code runs.
      throw noSuchFile()
    },
  }
}
