/**
 * The reference of the API: the OpenAPI document, and the page `/docs` that shows it in Swagger UI.
 *
 * The app imports it as `#reference`, and package.json chooses this file everywhere except in the Worker that wrangler
 * builds. There `reference.workerd.ts` reads what this file has made before: the generator needs ten times the CPU
 * that a free plan allows a request. The viewer comes from the static assets where there are some, else from disk.
 */

import type { Route } from '../http/route.ts'
import { type Bindings, noSuchFile, noViewer, readAsset } from './assets.ts'
import { openApiDocument } from './openapi.ts'

/** What the Worker reads from `docs/reference.json`. */
export type MadeReference = {
  /** The OpenAPI document as JSON. */
  readonly document: string
  readonly page: { readonly html: string; readonly headers: Readonly<Record<string, string>> }
}

export type Reference = {
  /** Returns the OpenAPI document as JSON. */
  document(bindings: Bindings): Promise<string>
  /** Returns the page `/docs`, or throws a problem that says how to get the viewer. */
  page(bindings: Bindings): Promise<Response>
  /** Returns a file below `/docs/`. */
  file(name: string, bindings: Bindings): Promise<Response>
}

/** The files below `/docs/`: Swagger UI with its licences, and our script that starts it. */
export const VIEWER_FILES: ReadonlyMap<string, string> = new Map([
  ['viewer.js', 'text/javascript; charset=utf-8'],
  ['swagger-ui-bundle.js', 'text/javascript; charset=utf-8'],
  ['swagger-ui-bundle.js.LICENSE.txt', 'text/plain; charset=utf-8'],
  ['swagger-ui.css', 'text/css; charset=utf-8'],
  ['LICENSE', 'text/plain; charset=utf-8'],
  ['NOTICE', 'text/plain; charset=utf-8'],
])

/** Its links are relative, so that the app can be mounted under any path. */
const PAGE: MadeReference['page'] = {
  html: `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>EchoMQ Edge: reference</title>
<link rel="stylesheet" href="docs/swagger-ui.css">
<script src="docs/swagger-ui-bundle.js" defer></script>
<script src="docs/viewer.js" defer></script>
</head>
<body>
<div id="viewer"></div>
<noscript>This page needs JavaScript. <a href="openapi.json">openapi.json</a> has the same content.</noscript>
</body>
</html>
`,
  headers: {
    'Content-Type': 'text/html; charset=utf-8',
    'Content-Security-Policy':
      "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    'Referrer-Policy': 'no-referrer',
    'X-Content-Type-Options': 'nosniff',
  },
}

/** Makes the reference that becomes a static asset. */
export function makeReference(routes: readonly Route[]): MadeReference {
  return { document: JSON.stringify(openApiDocument(routes)), page: PAGE }
}

/** Makes the document when it is first asked for, and keeps it. */
export function createReference(routes: readonly Route[]): Reference {
  let made: string | undefined
  return {
    async document() {
      made ??= makeReference(routes).document
      return made
    },
    async page(bindings) {
      if ((await readFile('viewer.js', bindings)) === undefined) throw noViewer()
      return new Response(PAGE.html, { headers: PAGE.headers })
    },
    async file(name, bindings) {
      const type = VIEWER_FILES.get(name)
      const body = type && (await readFile(name, bindings))
      if (!type || !body) throw noSuchFile()
      return new Response(body, { headers: { 'Content-Type': type, 'X-Content-Type-Options': 'nosniff' } })
    },
  }
}

async function readFile(name: string, bindings: Bindings): Promise<BodyInit | undefined> {
  const asset = await readAsset(bindings, name)
  return asset === undefined ? readViewerFile(name) : (asset.body ?? undefined)
}

type FileSystem = { readFile(file: URL): Promise<Uint8Array<ArrayBuffer>> }
type Host = { readonly process?: { getBuiltinModule?(name: 'node:fs/promises'): FileSystem | undefined } }

/**
 * Reads a file of the viewer from disk: in the package all of them are beside the code, in a clone most come from
 * `swagger-ui-dist`. Returns undefined on hosts without a disk. Node, Deno and Bun have `getBuiltinModule`; an import
 * would break the builds of hosts that have no such module.
 */
export async function readViewerFile(name: string): Promise<Uint8Array<ArrayBuffer> | undefined> {
  try {
    const disk = (globalThis as Host).process?.getBuiltinModule?.('node:fs/promises')
    const beside = await disk
      ?.readFile(new URL(`assets/docs/${name}`, import.meta.url))
      .catch(() => undefined)
    return beside ?? (await disk?.readFile(new URL(import.meta.resolve(`swagger-ui-dist/${name}`))))
  } catch {
    return undefined
  }
}
