/** `npm run demo`: the life of three jobs, played through the HTTP API of a stack of its own. */

import { Command } from 'commander'
import { stopWhenAsked } from '../../stack/shutdown.ts'
import { startStack } from '../../stack/stack.ts'
import { playStory } from '../demo.ts'

export function demoCommand(): Command {
  return new Command('demo')
    .description(
      'Starts the stack on free ports, plays a story through the HTTP API and prints what happens.',
    )
    .action(run)
}

async function run(): Promise<void> {
  let stop = async (): Promise<void> => {}
  stopWhenAsked(() => stop())

  process.stdout.write('Starting Redis, the bridge and the Worker ...\n')
  const stack = await startStack({ port: 0, restPort: 0, quiet: true, cron: false })
  stop = stack.stop
  try {
    await playStory(stack, (line) => process.stdout.write(`${line}\n`))
  } finally {
    await stack.stop()
  }
}
