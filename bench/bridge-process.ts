/** The REST bridge in a process of its own, as a database would be. Ends with the process that started it. */

import { createBridge } from '../src/stack/bridge/bridge.ts'

const [, , redisUrl = '', token = ''] = process.argv
const bridge = await createBridge({ redisUrl, token })
process.on('disconnect', () => process.exit())
process.send?.(bridge.url)
