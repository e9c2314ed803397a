/** `npm run openapi`: prints the OpenAPI document; with `--check` it holds it against the rules of a linter instead. */

import { Command } from 'commander'

/**
 * Beyond the linter's strict recommendation. What it leaves open and is held here: every tag, operation, parameter and
 * schema is explained, nothing is defined and unused, and no answer comes without a request id.
 */
const RULES = {
  'component-name-unique': 'error',
  'no-duplicated-tag-names': 'error',
  'no-schema-type-mismatch': 'error',
  'no-invalid-schema-examples': 'error',
  'no-required-schema-properties-undefined': 'error',
  'no-unused-components': 'error',
  'operation-description': 'error',
  'operation-singular-tag': 'error',
  'parameter-description': 'error',
  'request-mime-type': { severity: 'error', allowedValues: ['application/json'] },
  'response-contains-header': {
    severity: 'error',
    names: { '2xx': ['X-Request-Id'], '4xx': ['X-Request-Id'] },
  },
  'response-mime-type': {
    severity: 'error',
    allowedValues: ['application/json', 'application/problem+json', 'text/html', 'text/plain'],
  },
  'tag-description': 'error',
} as const

export function openapiCommand(): Command {
  return new Command('openapi')
    .description('Prints the OpenAPI document of the API.')
    .option('--check', 'print only what a linter finds wrong with it; exit with 1 when that is anything')
    .action(run)
}

async function run({ check }: { readonly check?: boolean }): Promise<void> {
  const [{ ROUTES }, { openApiDocument }] = await Promise.all([
    import('../../app.ts'),
    import('../../reference/openapi.ts'),
  ])
  const document = openApiDocument(ROUTES)
  const source = `${JSON.stringify(document, null, 2)}\n`
  if (!check) {
    process.stdout.write(source)
    return
  }
  const problems = await lint(source)
  for (const problem of problems) process.stderr.write(`${problem}\n`)
  if (problems.length > 0) throw new Error(`The OpenAPI document breaks ${problems.length} rules.`)
  process.stdout.write(`The OpenAPI document is sound: ${Object.keys(document.paths ?? {}).length} paths.\n`)
}

/** The linter's own library: the command line around it would also look for updates and report its use. */
async function lint(source: string): Promise<string[]> {
  const { createConfig, lintFromString } = await import('@redocly/openapi-core')
  const config = await createConfig({ extends: ['recommended-strict'], rules: RULES })
  const problems = await lintFromString({ source, absoluteRef: '/openapi.json', config })
  return problems.map(
    ({ ruleId, message, location }) => `${ruleId}: ${message} ${location[0]?.pointer ?? ''}`,
  )
}
