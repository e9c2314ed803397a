/** The script of the page /docs: puts Swagger UI in the place of the operations, and stays at the error asked for. */
const operations = document.getElementById('operations')

/** After the next frame: what was rendered has its height by then. */
const whenLaidOut = (then) => requestAnimationFrame(() => requestAnimationFrame(then))

window.SwaggerUIBundle({
  url: 'openapi.json',
  domNode: document.getElementById('viewer'),
  deepLinking: true,
  defaultModelsExpandDepth: 0,
  // It would send the document to a service that checks it.
  validatorUrl: null,
  onComplete() {
    operations.hidden = true
    whenLaidOut(() => document.querySelector('article:target')?.scrollIntoView())
  },
})
