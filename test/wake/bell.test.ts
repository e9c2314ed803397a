/** The bell of a queue: which of the waiting claims it wakes, and how often. */
import { expect, test } from 'vitest'
import { createBell, type Entry, PASS_ON_MS } from '../../src/wake/bell.ts'

test('n jobs wake at most n waiting claims, the oldest first', () => {
  const room = roomOf(4)
  room.bell.ring({ jobs: 2 })
  expect(room.woken()).toEqual([1, 1, 0, 0])
  room.bell.ring({ jobs: 1 })
  expect(room.woken()).toEqual([1, 1, 1, 0])
  room.bell.ring({ jobs: 50 })
  expect(room.woken()).toEqual([1, 1, 1, 1])
})

test('a claim that found nothing keeps its place in the order', () => {
  const room = roomOf(3)
  room.bell.ring({ jobs: 1 })
  room.report(0, { wakeUp: 1 })
  room.bell.ring({ jobs: 1 })
  expect(room.woken()).toEqual([2, 0, 0])
})

test('the wake-up of a claim whose connection broke goes to the next one at once', () => {
  const room = roomOf(3)
  room.bell.ring({ jobs: 1 })
  room.leave(0, undefined)
  expect(room.woken()).toEqual([1, 0])
})

test('the wake-up of a claim that stays silent goes to the next one after a second', () => {
  const room = roomOf(3)
  room.bell.ring({ jobs: 1 })
  expect(room.delays).toEqual([PASS_ON_MS])
  room.runLater()
  expect(room.woken()).toEqual([1, 1, 0])
  room.bell.ring({ jobs: 1 })
  expect(room.woken()).toEqual([1, 1, 1])
})

test('a wake-up that was answered in time is not passed on', () => {
  const room = roomOf(2)
  room.bell.ring({ jobs: 1 })
  room.report(0, { wakeUp: 1 })
  room.runLater()
  expect(room.woken()).toEqual([1, 0])
})

test('a claim that leaves with jobs uses up the wake-up before its claim, and passes on a later one', () => {
  const room = roomOf(3)
  room.bell.ring({ jobs: 1 })
  room.leave(0, 1)
  expect(room.woken()).toEqual([0, 0])
  room.bell.ring({ jobs: 1 })
  room.leave(0, 0)
  expect(room.woken()).toEqual([1])
})

test('a report from before a wake-up does not answer it', () => {
  const room = roomOf(2)
  room.bell.ring({ jobs: 1 })
  room.report(0, { wakeUp: 0 })
  room.leave(0, undefined)
  expect(room.woken()).toEqual([1])
})

test('a job that becomes due wakes one claim, however many wait', () => {
  const room = roomOf(100)
  room.bell.ring({ dueInMs: 3_000 })
  expect(room.planned).toEqual([3_000])
  room.bell.due()
  expect(room.woken().filter((wakeUps) => wakeUps > 0)).toEqual([1])
})

test('a paused queue wakes no claim until it is resumed', () => {
  const room = roomOf(2)
  room.bell.ring({ paused: true })
  room.bell.ring({ jobs: 5 })
  room.bell.due()
  expect(room.woken()).toEqual([0, 0])
  room.bell.ring({ paused: false, jobs: 1 })
  expect(room.woken()).toEqual([1, 0])
})

test('a claim that finds its queue paused is not woken', () => {
  const room = roomOf(2)
  room.report(0, { wakeUp: 0, paused: true })
  room.bell.ring({ jobs: 1 })
  expect(room.woken()).toEqual([0, 1])
})

test('a due time is planned only while claims wait', () => {
  const room = roomOf(1)
  room.leave(0, 0)
  room.bell.ring({ dueInMs: 10 })
  expect(room.planned).toEqual([])
})

/** A bell with so many waiting claims, in the order of their arrival. */
function roomOf(count: number) {
  const members = Array.from({ length: count }, (_, order) => ({
    entry: { order, state: 'idle', wakeUps: 0 } as Entry,
  }))
  const planned: number[] = []
  const delays: number[] = []
  let later: (() => void)[] = []
  const bell = createBell<(typeof members)[number]>({
    all: () => members,
    read: ({ entry }) => entry,
    write(member, entry) {
      member.entry = entry
    },
    wake() {},
    planDue: (ms) => planned.push(ms),
    after(ms, run) {
      delays.push(ms)
      later.push(run)
    },
  })
  return {
    bell,
    planned,
    delays,
    woken: () => members.map(({ entry }) => entry.wakeUps),
    report: (index: number, report: Parameters<typeof bell.report>[1]) =>
      bell.report(memberAt(index), report),
    leave(index: number, wakeUp: number | undefined) {
      const { entry } = memberAt(index)
      members.splice(index, 1)
      bell.leave(entry, wakeUp)
    },
    runLater() {
      const due = later
      later = []
      for (const run of due) run()
    },
  }

  function memberAt(index: number) {
    const member = members[index]
    if (member === undefined) throw new RangeError('no such waiting claim')
    return member
  }
}
