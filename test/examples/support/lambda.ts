/**
 * Invokes the handler of the Lambda example once, as Lambda does: a module that is imported, an event, and a context
 * that knows how much time is left. Prints the answer.
 *
 *   node lambda.ts <milliseconds>
 */
import { handler } from '../../../examples/lambda/handler.ts'

const endsAt = performance.now() + Number(process.argv[2])
const answer = await handler({}, { getRemainingTimeInMillis: () => endsAt - performance.now() })
console.log(JSON.stringify({ event: 'answered', answer, remainingMs: endsAt - performance.now() }))
