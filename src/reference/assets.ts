/** The static assets of a Worker, behind the binding `ASSETS`: the made reference and the files of its viewer. */
import { ProblemError } from '../http/problem.ts'

export type Bindings = Readonly<Record<string, unknown>> | undefined

type Assets = { fetch(url: string): Promise<Response> }

function isAssets(binding: unknown): binding is Assets {
  return typeof binding === 'object' && binding !== null && 'fetch' in binding
}

/** Returns a file below `docs/`; undefined without the binding or the file. */
export async function readAsset(bindings: Bindings, name: string): Promise<Response | undefined> {
  const assets = bindings?.['ASSETS']
  // The binding reads only the path of the URL.
  const response = isAssets(assets) ? await assets.fetch(`https://assets/docs/${name}`) : undefined
  // A site with a fallback page returns that page instead of 404.
  const isFallback = response?.headers.get('Content-Type')?.startsWith('text/html')
  return response?.ok && !isFallback ? response : undefined
}

export function noSuchFile(): ProblemError {
  return new ProblemError('not_found', 'There is no such route.')
}

export function noViewer(): ProblemError {
  return new ProblemError(
    'not_found',
    'This deployment has no viewer; the OpenAPI document is at /openapi.json. A Worker gets the viewer with these lines of wrangler.toml: [assets] directory = "node_modules/echomq-edge/dist/assets" binding = "ASSETS"',
  )
}
