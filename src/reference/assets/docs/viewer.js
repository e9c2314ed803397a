/** The script of /docs: shows the OpenAPI document in Swagger UI, and explains each error at `#error-<code>`. */
const isErrorAsked = location.hash.startsWith('#error-')

/** Adds the errors below the operations. Their places are the `type` of the problems that the API returns. */
function withErrors(Operations, { React: { createElement }, getComponent, specSelectors }) {
  const Markdown = getComponent('Markdown', true)

  function renderError({ meaning, problem }) {
    return createElement(
      'section',
      { id: `error-${problem.code}`, key: problem.code },
      createElement('h4', null, `${problem.code}: ${problem.status} ${problem.title}`),
      createElement(Markdown, { source: meaning }),
      createElement('pre', { className: 'example' }, JSON.stringify(problem, null, 2)),
    )
  }

  return function OperationsAndErrors(props) {
    const { responses } = specSelectors.specJson().get('components').toJS()
    const errors = Object.values(responses).flatMap(({ description, content }) => {
      const meanings = description.split('\n\n')
      const examples = Object.values(content['application/problem+json'].examples)
      return examples.map(({ value }, nth) => ({ meaning: meanings[nth], problem: value }))
    })
    errors.sort((a, b) => (a.problem.code < b.problem.code ? -1 : 1))
    return createElement(
      'div',
      null,
      createElement(Operations, props),
      createElement('h3', { className: 'opblock-tag', id: 'errors' }, 'Errors'),
      errors.map(renderError),
    )
  }
}

window.SwaggerUIBundle({
  url: 'openapi.json',
  domNode: document.getElementById('viewer'),
  plugins: [{ wrapComponents: { operations: withErrors } }],
  // Deep links would read the name of an error as the name of an operation.
  deepLinking: !isErrorAsked,
  defaultModelsExpandDepth: 0,
  // The validator would send the document to another host.
  validatorUrl: null,
  onComplete() {
    if (!isErrorAsked) return
    // The page has its full height after the next frame.
    requestAnimationFrame(() =>
      requestAnimationFrame(() => document.getElementById(location.hash.slice(1))?.scrollIntoView()),
    )
  },
})
