/** The tables of `docs/client.md`, generated from the types of the client and their comments. */
import { join } from 'node:path'
import ts from 'typescript'
import { EchoMQError, type ErrorCode } from '../../../src/client/index.ts'
import { ERRORS } from '../../../src/errors.ts'
import { PROJECT, programOf } from '../../support/typescript.ts'

/** The types whose members have a table, and the name of the members in it. */
export const TABLES = {
  EchoMQOptions: 'option',
  QueueOptions: 'option',
  Queue: 'verb',
  CallOptions: 'option',
  EnqueueOptions: 'option',
  ClaimOptions: 'option',
  JobsOptions: 'option',
  RedriveOptions: 'option',
  PurgeOptions: 'option',
  AuditOptions: 'option',
  ConsumeOptions: 'option',
  Consumer: 'member',
  ConsumerEvents: 'event',
  DrainOptions: 'option',
  Drained: 'count',
  ErrorDetails: 'field',
}

function table(rows: readonly (readonly string[])[]): string {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)))
  const lineOf = (row: readonly string[]): string =>
    `| ${widths.map((width, column) => (row[column] ?? '').padEnd(width)).join(' | ')} |\n`
  const [head = [], ...body] = rows
  return [head, widths.map((width) => '-'.repeat(width)), ...body].map(lineOf).join('')
}

/** The tables by the name of their type. A member without a comment is an error. */
export function tablesOfTypes(): Map<string, string> {
  const files = ['index.ts', 'errors.ts'].map((file) => join(PROJECT, 'src/client', file))
  const program = programOf(files)
  const checker = program.getTypeChecker()
  const exported = new Map(
    files.flatMap((file) => {
      const source = program.getSourceFile(file)
      const module = source && checker.getSymbolAtLocation(source)
      return (module ? checker.getExportsOfModule(module) : []).map(
        (symbol) => [symbol.name, symbol] as const,
      )
    }),
  )

  /** A verb with its arguments, an event with its fields, an option with its name. */
  const callOf = (member: ts.Symbol, column: string): string => {
    const type = checker.getTypeOfSymbol(member)
    const [signature] = type.getCallSignatures()
    // A destructured parameter has no name.
    const names = signature?.parameters.map(({ name }) => (name.startsWith('__') ? 'options' : name))
    if (names) return `${member.name}(${names.join(', ')})`
    const told = type.getProperties().map(({ name }) => name)
    return column === 'event' && told.length > 0 ? `${member.name} { ${told.join(', ')} }` : member.name
  }

  const tableOf = (name: string, column: string): string => {
    const symbol = exported.get(name)
    if (symbol === undefined) throw new Error(`there is no ${name}`)
    const given = symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol
    const members = checker
      .getDeclaredTypeOfSymbol(given)
      .getProperties()
      .filter((member) => !/^(__)?#/.test(member.name))
      // The options of all verbs have their own table.
      .filter((member) => name === 'CallOptions' || member.name !== 'signal')
      .filter((member) => column !== 'verb' || checker.getTypeOfSymbol(member).getCallSignatures().length > 0)
    const rows = members.map((member) => {
      const text = ts.displayPartsToString(member.getDocumentationComment(checker)).replaceAll(/\s+/g, ' ')
      if (text === '') throw new Error(`${name}.${member.name} has no comment`)
      return [`\`${callOf(member, column)}\``, text]
    })
    return table([[column, 'what it is'], ...rows])
  }

  return new Map(Object.entries(TABLES).map(([name, column]) => [name, tableOf(name, column)]))
}

/** The codes of errors, with their HTTP status. */
export function tableOfCodes(): string {
  const api = Object.entries(ERRORS).map(([code, { status, title }]) => [code, `${status}`, title])
  const own = [
    ['network', '', 'No response of the API arrived'],
    ['timeout', '', 'No response arrived in time'],
  ]
  const rows = [...api, ...own].map(([code, status = '', meaning = '']) => {
    const { retryable } = new EchoMQError(code as ErrorCode, '')
    return [`\`${code}\``, status, meaning, retryable ? 'yes' : 'no']
  })
  return table([['code', 'status', 'what it means', 'retryable'], ...rows])
}
