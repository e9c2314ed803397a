/**
 * The static assets of the Worker, made by wrangler's build step (see wrangler.toml): the reference of the API and its
 * viewer. What is an asset is not part of the Worker's code, and costs nothing to serve.
 */

import { cp, mkdir, rm, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { ROUTES } from '../app.ts'
import { makeReference } from '../reference/reference.ts'
import { SITE } from '../stack/wrangler.ts'

const VIEWER = ['swagger-ui-bundle.js', 'swagger-ui.css']

/** Makes them anew, in the folder that wrangler.toml names. */
export async function makeSite(folder = SITE): Promise<void> {
  const docs = join(folder, 'docs')
  const package_ = dirname(createRequire(import.meta.url).resolve('swagger-ui-dist/package.json'))
  await rm(docs, { recursive: true, force: true })
  await mkdir(docs, { recursive: true })
  await Promise.all([
    ...VIEWER.map((file) => cp(join(package_, file), join(docs, file))),
    cp(fileURLToPath(new URL('../reference/docs-viewer.js', import.meta.url)), join(docs, 'viewer.js')),
    writeFile(
      join(docs, 'reference.json'),
      JSON.stringify(await makeReference(ROUTES, { withViewer: true })),
    ),
  ])
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await makeSite()
