/** The bells of one process: for a server on Node, Deno or Bun that is the only one in front of its database, and for tests. */
import { type Bell, createBell, type Entry } from './bell.ts'
import { createWaiter, type Waiter } from './waiter.ts'
import type { Wake } from './wake.ts'

type Member = { entry: Entry; readonly waiter: Waiter }

type Room = {
  readonly members: Member[]
  readonly bell: Bell<Member>
  dueAt: number
  timer?: ReturnType<typeof setTimeout>
}

/**
 * Wake-ups between requests of this process.
 *
 * @example
 * const app = createApp({ env: process.env, wake: createProcessWake() })
 */
export function createProcessWake(): Wake {
  const rooms = new Map<string, Room>()

  function open(queue: string): Room {
    const members: Member[] = []
    const bell = createBell<Member>({
      all: () => members,
      read: ({ entry }) => entry,
      write(member, entry) {
        member.entry = entry
      },
      wake: ({ waiter }, wakeUp) => waiter.wake(wakeUp),
      planDue(dueInMs) {
        const at = Date.now() + dueInMs
        if (at >= room.dueAt) return
        clearTimeout(room.timer)
        room.dueAt = at
        room.timer = setTimeout(() => {
          room.dueAt = Number.POSITIVE_INFINITY
          bell.due()
        }, dueInMs)
      },
      after: (ms, run) => void setTimeout(run, ms),
    })
    const room: Room = { members, bell, dueAt: Number.POSITIVE_INFINITY }
    rooms.set(queue, room)
    return room
  }

  return {
    async register(queue, signal) {
      const room = rooms.get(queue) ?? open(queue)
      const { members, bell } = room
      const waiter = createWaiter(signal, {
        report: (report) => bell.report(member, report),
        leave(wakeUp, dueInMs) {
          members.splice(members.indexOf(member), 1)
          bell.leave(member.entry, wakeUp, dueInMs)
          if (members.length > 0) return
          clearTimeout(room.timer)
          rooms.delete(queue)
        },
      })
      const order = (members.at(-1)?.entry.order ?? 0) + 1
      const member: Member = { waiter, entry: { order, state: 'idle', wakeUps: 0 } }
      members.push(member)
      return waiter.registration
    },
    ring: (queue, news) => rooms.get(queue)?.bell.ring(news),
  }
}
