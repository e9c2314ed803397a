/**
 * Makes the static assets of the Worker: the reference of the API and its viewer. wrangler's build step runs this (see
 * wrangler.toml), and so does the build of the package. Assets are not part of the Worker's code.
 */

import { mkdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { ROUTES } from '../app.ts'
import { makeReference, readViewerFile, VIEWER_FILES } from '../reference/reference.ts'
import { SITE } from '../stack/wrangler.ts'
import { licenceNotices } from './licences.ts'

/** The headers of every asset; the app sets them on its own responses. */
const HEADERS = `/*
  X-Content-Type-Options: nosniff
  Referrer-Policy: no-referrer
`

/** Replaces the assets in the folder, by default the one that wrangler.toml names. */
export async function makeSite(folder = SITE): Promise<void> {
  const docs = join(folder, 'docs')
  await rm(docs, { recursive: true, force: true })
  await mkdir(docs, { recursive: true })
  await writeFile(join(folder, '_headers'), HEADERS)
  await writeFile(join(folder, 'third-party-licences.txt'), await licenceNotices())
  await writeFile(join(docs, 'reference.json'), JSON.stringify(makeReference(ROUTES)))
  for (const name of VIEWER_FILES.keys()) {
    const contents = await readViewerFile(name)
    if (contents === undefined) throw new Error(`The viewer's file ${name} is missing. Run \`npm ci\`.`)
    await writeFile(join(docs, name), contents)
  }
}

if (import.meta.main) await makeSite()
