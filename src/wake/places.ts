/** The waiting claims of this isolate, counted for each token: one caller cannot hold all the memory of an isolate. */

const counts = new Map<string, number>()

/** Takes a place for a waiting claim; undefined when the token has `most` of them already. */
export function takePlace(token: string, most: number): { leave(): void } | undefined {
  const count = counts.get(token) ?? 0
  if (count >= most) return undefined
  counts.set(token, count + 1)
  return {
    leave() {
      const left = (counts.get(token) ?? 1) - 1
      if (left === 0) counts.delete(token)
      else counts.set(token, left)
    },
  }
}
