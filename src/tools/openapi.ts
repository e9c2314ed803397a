/** `npm run openapi`: prints the OpenAPI document, or lints it (`--check`). */

import { createConfig, lintFromString } from '@redocly/openapi-core'
import { ROUTES } from '../app.ts'
import { openApiDocument } from '../reference/openapi.ts'

/**
 * Stricter than the recommendation of the linter: every tag, operation, parameter and schema has a description, every
 * component is used, and every response has a request id.
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

export async function printOrCheck(isCheck: boolean): Promise<void> {
  const document = openApiDocument(ROUTES)
  const source = `${JSON.stringify(document, null, 2)}\n`
  if (!isCheck) {
    process.stdout.write(source)
    return
  }
  // The library, because the linter's command line looks for updates and reports its use.
  const config = await createConfig({ extends: ['recommended-strict'], rules: RULES })
  const problems = await lintFromString({ source, absoluteRef: '/openapi.json', config })
  for (const { ruleId, message, location } of problems)
    process.stderr.write(`${ruleId}: ${message} ${location[0]?.pointer ?? ''}\n`)
  if (problems.length > 0) throw new Error(`The OpenAPI document breaks ${problems.length} rules.`)
  process.stdout.write(`The OpenAPI document is valid: ${Object.keys(document.paths ?? {}).length} paths.\n`)
}
