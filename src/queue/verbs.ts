/** Every verb of a queue, by name. Each is one function; two verbs of one name would not compile. */
export { audit } from './audit.ts'
export { claim, extend, fail, hintMs, release, settle, wasBusy } from './consume.ts'
export { browse, complete, enqueue, pendingSize, promote, reap, retry } from './core.ts'
export { hold } from './held-claims.ts'
export { job, listJobs as list, stats } from './observe.ts'
export { changeSettings, pause, purge, redrive, redriveMany, remove, reschedule, resume } from './operate.ts'
export { enqueueMany } from './produce.ts'
export { sweep } from './sweep.ts'
