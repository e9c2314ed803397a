/**
 * The reference as a page: the OpenAPI document, rendered here and complete without a script, with a place for each
 * error (`/docs#error-<code>`, the `type` of its problems).
 *
 * Where the deployment has static assets, Swagger UI takes the place of the operations, to be tried out with a token.
 * Of the viewers it is the one that is kept by many, comes as one script and one style sheet in a single package, and
 * works under a policy that allows neither inline scripts nor inline styles; the others want one or both, or a
 * CDN. As an asset it weighs nothing in the Worker. It is not needed: on Node, or when it fails, the page stays as it is.
 */
import type { OpenApiDocument } from './openapi.ts'

/** A part of the document, as the generator has it: looked at freely, because a test looks at the whole page. */
type Part = ReturnType<typeof JSON.parse>

export type DocsPage = { readonly html: string; readonly headers: Readonly<Record<string, string>> }

/** Of what is rendered here; the viewer has a style of its own. */
const STYLE = `
:root { color-scheme: light; }
body { margin: 0; }
.own { color: #1d2433; font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 60rem; padding: 1rem 1.25rem; }
.own a { color: #1a56b0; }
.own :is(h1, h2, h3) { line-height: 1.3; }
.own h2 { margin-top: 3rem; }
.own article { border-top: 1px solid #d9dee7; padding: .25rem 0 1rem; scroll-margin-top: 1rem; }
.own article:target { background: #fff8d6; box-shadow: 0 0 0 .75rem #fff8d6; }
.own :is(code, pre) { font: .875em/1.5 ui-monospace, monospace; }
.own code { background: #eef1f6; border-radius: 3px; padding: .1em .3em; }
.own pre { background: #f6f8fb; border: 1px solid #d9dee7; border-radius: 4px; margin: .25rem 0; overflow-x: auto; padding: .5rem .75rem; }
.own h3 code { background: none; padding: 0; }
.own .method { background: #44506a; border-radius: 3px; color: #fff; font: 700 .75em/1 system-ui, sans-serif; padding: .3em .5em; }
.own table { border-collapse: collapse; width: 100%; }
.own :is(td, th) { border-top: 1px solid #e6eaf0; padding: .25rem .75rem .25rem 0; text-align: left; vertical-align: top; }
.own summary { cursor: pointer; }
`

const escaped = (text: string): string =>
  text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`)

/** The Markdown that our descriptions use: code, bold, emphasis. */
const inline = (text: string): string =>
  escaped(text)
    .replace(/`([^`]+)`/g, '<code>$1</code>')
    .replace(/\*\*([^*]+)\*\*/g, '<strong>$1</strong>')
    .replace(/\*([^*]+)\*/g, '<em>$1</em>')

/** Paragraphs and lists of it. */
const markdown = (text: string): string =>
  text
    .split('\n\n')
    .map((block) =>
      block.startsWith('- ')
        ? `<ul>${block
            .slice(2)
            .split('\n- ')
            .map((item) => `<li>${inline(item)}</li>`)
            .join('')}</ul>`
        : `<p>${inline(block)}</p>`,
    )
    .join('')

const json = (value: unknown): string =>
  `<pre>${escaped(typeof value === 'string' ? value : JSON.stringify(value, null, 2))}</pre>`

const table = (head: readonly string[], rows: readonly (readonly string[])[]): string => {
  const row = (tag: string, cells: readonly string[]): string =>
    `<tr>${cells.map((cell) => `<${tag}>${cell}</${tag}>`).join('')}</tr>`
  return rows.length === 0
    ? ''
    : `<table>${row('th', head)}${rows.map((cells) => row('td', cells)).join('')}</table>`
}

/** Renders one document: everything in it is looked up there. */
function createRenderer(document: Part) {
  const resolved = (part: Part): Part =>
    part?.$ref === undefined
      ? part
      : part.$ref
          .slice('#/'.length)
          .split('/')
          .reduce((at: Part, segment: string) => at[segment], document)

  /** A schema in a few words: `integer, 1 to 100`. */
  function typeOf(part: Part): string {
    const schema = resolved(part)
    if (schema.enum !== undefined)
      return schema.enum.map((word: string) => `<code>${escaped(word)}</code>`).join(', ')
    if (schema.const !== undefined) return `<code>${escaped(String(schema.const))}</code>`
    if (schema.anyOf !== undefined) return schema.anyOf.map(typeOf).join(' or ')
    if (schema.type === 'array') return `array of ${typeOf(schema.items)}`
    const range = schema.maximum === undefined ? '' : `, ${schema.minimum} to ${schema.maximum}`
    return `${escaped([schema.type ?? 'any value'].flat().join(' or '))}${range}`
  }

  const described = (part: Part): string => inline(part.description ?? resolved(part).description ?? '')

  const row = (name: string, part: Part, isRequired: boolean): string[] => [
    `<code>${escaped(name)}</code>${isRequired ? ' required' : ''}`,
    typeOf(part),
    described(part) +
      (part.default === undefined ? '' : ` Default: <code>${escaped(String(part.default))}</code>.`),
  ]

  /** The fields of an object, and of the objects that its arrays hold. */
  function fieldsOf(part: Part): string {
    const schema = resolved(part)
    const branches: Part[] = schema.anyOf ?? (schema.discriminator === undefined ? [] : schema.oneOf)
    if (branches.length > 0) return branches.map(fieldsOf).join('<p>or</p>')
    const { properties = {}, required = [] } = schema
    const members = Object.entries<Part>(properties)
    const rows = members.map(([name, member]) => row(name, member, required.includes(name)))
    const inner = members.flatMap(([name, member]) => {
      const { items } = resolved(member)
      const isObject = items !== undefined && /"(properties|oneOf)":/.test(JSON.stringify(resolved(items)))
      return isObject ? [`<p>Each of <code>${escaped(name)}</code>:</p>${fieldsOf(items)}`] : []
    })
    return table(['Field', 'Type', 'Meaning'], rows) + inner.join('')
  }

  /** The one content of a body or a response. */
  const contentOf = ({ content = {} }: Part = {}): Part => Object.values(content)[0] ?? {}

  function examples({ requestBody, responses }: Part): string {
    const sent = contentOf(requestBody).examples ?? {}
    return Object.entries<Part>(responses)
      .flatMap(([status, response]) =>
        response.$ref === undefined
          ? Object.entries<Part>(contentOf(response).examples ?? {}).map(([name, { summary, value }]) => {
              const request = sent[name] === undefined ? '' : json(sent[name].value)
              return `<details><summary>${inline(summary)}</summary>${request}<p>${status}</p>${json(value)}</details>`
            })
          : [],
      )
      .join('')
  }

  /** The errors of an operation, each a link to what is said of it. */
  function errorLinks({ responses }: Part): string {
    const codes = Object.values<Part>(responses).flatMap((response) =>
      response.$ref === undefined ? [] : Object.keys(contentOf(resolved(response)).examples),
    )
    return codes.map((code) => `<a href="#error-${code}"><code>${code}</code></a>`).join(' ')
  }

  function operation(path: string, method: string, part: Part): string {
    const parameters = part.parameters.map(resolved).map((parameter: Part) => {
      const { name, schema, description, required = false } = parameter
      return row(name, { ...schema, description }, required)
    })
    const body = part.requestBody === undefined ? '' : fieldsOf(contentOf(part.requestBody).schema)
    const answers = Object.entries<Part>(part.responses)
      .filter(([, response]) => response.$ref === undefined)
      .map(([status, response]) => `<p><strong>${status}</strong> ${inline(response.description)}</p>`)
    return `<article id="operation-${part.operationId}"><h3><span class="method">${method.toUpperCase()}</span> <code>${escaped(path)}</code><br>${inline(part.summary)}</h3>
${markdown(part.description)}
${table(['Parameter', 'Type', 'Meaning'], parameters)}${body}
${answers.join('')}${examples(part)}
<p>Errors: ${errorLinks(part)}</p></article>`
  }

  function operations(): string {
    const all = Object.entries<Part>(document.paths).flatMap(([path, methods]) =>
      Object.entries<Part>(methods).map(([method, part]) => ({ path, method, part })),
    )
    return document.tags
      .map(({ name, description }: Part) => {
        const own = all.filter(({ part }) => part.tags.includes(name))
        return `<h2>${escaped(name)}</h2>${markdown(description)}${own.map(({ path, method, part }) => operation(path, method, part)).join('')}`
      })
      .join('')
  }

  function errors(): string {
    const known = new Map<string, string>()
    for (const response of Object.values<Part>(document.components.responses)) {
      const meanings = response.description.split('\n\n')
      const examples = Object.entries<Part>(contentOf(response).examples)
      for (const [nth, [code, { value }]] of examples.entries()) {
        const meaning = meanings[nth].replace(`\`${code}\`: `, '')
        known.set(
          code,
          `<article id="error-${code}"><h3><code>${code}</code> ${value.status} ${escaped(value.title)}</h3>${markdown(meaning)}${json(value)}</article>`,
        )
      }
    }
    return [...known]
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([, article]) => article)
      .join('')
  }

  return { operations, errors }
}

const SWAGGER_UI = `<link rel="stylesheet" href="docs/swagger-ui.css">
<script src="docs/swagger-ui-bundle.js" defer></script>
<script src="docs/viewer.js" defer></script>`

/** The digest of an inline style, as a policy names it. */
async function sourceOf(style: string): Promise<string> {
  const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(style))
  return `'sha256-${btoa(String.fromCharCode(...new Uint8Array(digest)))}'`
}

/**
 * The page of a document. Its links are relative, so that it works under any path.
 *
 * @param withViewer Whether the assets of Swagger UI are there.
 *
 * @example
 * const { html, headers } = await docsPage(openApiDocument(ROUTES), { withViewer: false })
 */
export async function docsPage(
  document: OpenApiDocument,
  { withViewer }: { withViewer: boolean },
): Promise<DocsPage> {
  const { operations, errors } = createRenderer(document)
  const { title, version, description = '' } = document.info
  const html = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>${escaped(title)}: reference</title>
<style>${STYLE}</style>
${withViewer ? SWAGGER_UI : ''}
</head>
<body>
<div id="viewer"></div>
<main class="own" id="reference">
<h1>${escaped(title)} ${escaped(version)}</h1>
${markdown(description)}
<p><a href="openapi.json">openapi.json</a> has all of this for machines.</p>
${operations()}
</main>
<section class="own">
<h2 id="errors">Errors</h2>
${errors()}
</section>
</body>
</html>
`
  const policy = [
    "default-src 'none'",
    "script-src 'self'",
    `style-src 'self' ${await sourceOf(STYLE)}`,
    "img-src 'self' data:",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ]
  return {
    html,
    headers: {
      'Content-Type': 'text/html; charset=utf-8',
      'Content-Security-Policy': policy.join('; '),
      'Referrer-Policy': 'no-referrer',
      'X-Content-Type-Options': 'nosniff',
    },
  }
}
