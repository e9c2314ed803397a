/** The reference of the API in the Worker: read from the static assets that the build has made, and kept. */
import { noSuchFile, noViewer, readAsset } from './assets.ts'
import { bundledDocument } from './bundled-document.ts'
import type { createReference as createMadeReference, MadeReference } from './reference.ts'

export const createReference: typeof createMadeReference = () => {
  let known: MadeReference | undefined
  async function read(bindings: Parameters<typeof readAsset>[0]): Promise<Partial<MadeReference>> {
    known ??= await (await readAsset(bindings, 'reference.json'))?.json()
    return known ?? {}
  }

  return {
    async document(bindings) {
      const { document = bundledDocument } = await read(bindings)
      if (document === undefined) throw noViewer()
      return document
    },
    async page(bindings) {
      const { page } = await read(bindings)
      if (page === undefined) throw noViewer()
      return new Response(page.html, { headers: page.headers })
    },
    async file(name, bindings) {
      const asset = await readAsset(bindings, name)
      if (asset === undefined) throw noSuchFile()
      return new Response(asset.body, asset)
    },
  }
}
