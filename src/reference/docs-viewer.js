/** The script of the page /docs: puts Swagger UI in the place of the operations, and stays at the error asked for. */
const error = location.hash.startsWith('#error-') ? document.getElementById(location.hash.slice(1)) : null

window.SwaggerUIBundle({
  url: 'openapi.json',
  domNode: document.getElementById('viewer'),
  // It would take the name of an error for one of an operation.
  deepLinking: error === null,
  defaultModelsExpandDepth: 0,
  // It would send the document to a service that checks it.
  validatorUrl: null,
  onComplete() {
    document.getElementById('reference').hidden = true
    // After the next frame: what was rendered has its height by then.
    requestAnimationFrame(() => requestAnimationFrame(() => error?.scrollIntoView()))
  },
})
