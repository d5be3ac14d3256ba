/**
 * `deno run -A tests/floating_promises.ts [FILE…]`: finds promises that nobody awaits and nested
 * conditional expressions, in the whole tree or the named files.
 *
 * A removed `await` changes no type, and most tests pass without it. A statement whose value is a promise is therefore
 * refused; `void` before it says that it is left to itself on purpose, and a handler of its rejection says so too.
 * A conditional expression within another one is refused as well: `if`, a table or a name for the inner one read better.
 * Prints a line for each; ends with 1 if there is any.
 */

import { relative } from "node:path";
import { fileURLToPath } from "node:url";
import ts from "typescript";

const ROOT = fileURLToPath(new URL("../", import.meta.url));
const FOLDERS = ["cli", "drivers", "examples", "lib", "tests"];
/** Generated code, and sources of the browser's page, which have a build of their own. */
const EXCLUDED = ["lib/web/", "node_modules/", "proto/gen/"];

/** A place that breaks a rule. */
export interface BrokenRule {
  /** From the root of the tree. */
  readonly file: string;
  readonly line: number;
  readonly text: string;
}

/** The promises that statements drop, and the conditional expressions within others. */
export async function brokenRules(
  files: readonly string[],
): Promise<{ readonly floating: BrokenRule[]; readonly nested: BrokenRule[] }> {
  const types = await denoTypes();
  try {
    const program = ts.createProgram([types, ...files], COMPILER_OPTIONS);
    const wanted = new Set(files);
    const sources = program.getSourceFiles().filter(({ fileName }) => wanted.has(fileName));
    return {
      floating: sources.flatMap((source) => floatingIn(source, program.getTypeChecker())),
      nested: sources.flatMap(nestedIn),
    };
  } finally {
    await Deno.remove(types);
  }
}

/** The dropped promises of one file. */
export function floatingIn(source: ts.SourceFile, checker: ts.TypeChecker): BrokenRule[] {
  const found: BrokenRule[] = [];
  const visit = (node: ts.Node) => {
    if (ts.isExpressionStatement(node) && isFloating(node.expression, checker)) {
      found.push(brokenAt(node, source));
    }
    ts.forEachChild(node, visit);
  };
  visit(source);
  return found;
}

/** The conditional expressions of one file that are a part of another one, by themselves or in parentheses. */
function nestedIn(source: ts.SourceFile): BrokenRule[] {
  const found: BrokenRule[] = [];
  const visit = (node: ts.Node) => {
    if (ts.isConditionalExpression(node)) {
      const parts = [node.condition, node.whenTrue, node.whenFalse];
      if (parts.some((part) => ts.isConditionalExpression(bareOf(part)))) {
        found.push(brokenAt(node, source));
      }
    }
    ts.forEachChild(node, visit);
  };
  visit(source);
  return found;
}

function bareOf(node: ts.Expression): ts.Expression {
  return ts.isParenthesizedExpression(node) ? bareOf(node.expression) : node;
}

function brokenAt(node: ts.Node, source: ts.SourceFile): BrokenRule {
  const { line } = source.getLineAndCharacterOfPosition(node.getStart(source));
  const [text] = node.getText(source).split("\n");
  return { file: relative(ROOT, source.fileName), line: line + 1, text };
}

/** TypeScript's view of files, beside Deno's own types. What comes from packages has no types here, and floats unseen. */
export const COMPILER_OPTIONS: ts.CompilerOptions = {
  target: ts.ScriptTarget.ESNext,
  module: ts.ModuleKind.ESNext,
  moduleResolution: ts.ModuleResolutionKind.Bundler,
  allowImportingTsExtensions: true,
  noEmit: true,
  lib: ["lib.esnext.d.ts"],
  skipLibCheck: true,
  strict: true,
  types: [],
};

/** Writes the types of Deno to a temporary file, which the caller removes. */
export async function denoTypes(): Promise<string> {
  const types = await Deno.makeTempFile({ suffix: ".d.ts" });
  const { stdout } = await new Deno.Command(Deno.execPath(), { args: ["types"] }).output();
  await Deno.writeFile(types, stdout);
  return types;
}

/** The files of the tree that the type check looks at, by their absolute paths. */
export async function checkedFiles(): Promise<string[]> {
  const files: string[] = [];
  for (const folder of FOLDERS) files.push(...await Array.fromAsync(sources(folder)));
  return files;
}

function isFloating(expression: ts.Expression, checker: ts.TypeChecker): boolean {
  const bare = ts.skipPartiallyEmittedExpressions(expression);
  if (ts.isParenthesizedExpression(bare)) return isFloating(bare.expression, checker);
  if (ts.isBinaryExpression(bare)) {
    const { kind } = bare.operatorToken;
    const isChoice = kind === ts.SyntaxKind.AmpersandAmpersandToken ||
      kind === ts.SyntaxKind.BarBarToken || kind === ts.SyntaxKind.QuestionQuestionToken;
    // An assignment keeps the promise.
    return isChoice && isFloating(bare.right, checker);
  }
  if (ts.isConditionalExpression(bare)) {
    return isFloating(bare.whenTrue, checker) || isFloating(bare.whenFalse, checker);
  }
  return ts.isCallExpression(bare) && !handlesRejection(bare) && returnsPromise(bare, checker);
}

/**
 * Whether a call gives a promise. The types of its arguments, which often are whole functions, matter only if some form
 * of the called function may give one: without them the check takes a fifth less.
 */
function returnsPromise(call: ts.CallExpression, checker: ts.TypeChecker): boolean {
  if (call.expression.kind === ts.SyntaxKind.ImportKeyword) return true;
  const called = checker.getNonNullableType(checker.getTypeAtLocation(call.expression));
  // What a call of `any` gives is `any`.
  if ((called.flags & ts.TypeFlags.Any) !== 0) return false;

  const forms = called.getCallSignatures();
  const mayGive = (form: ts.Signature) => {
    const given = form.getReturnType();
    const isVoid = (given.flags & ts.TypeFlags.Void) !== 0;
    return form.typeParameters !== undefined && !isVoid || isPromise(given);
  };
  return (forms.length === 0 || forms.some(mayGive)) && isPromise(checker.getTypeAtLocation(call));
}

/** Whether the call is `….catch(handler)` or `….then(handler, handler)`, perhaps with `.finally(…)` behind it. */
function handlesRejection({ expression, arguments: given }: ts.CallExpression): boolean {
  if (!ts.isPropertyAccessExpression(expression)) return false;
  const { text } = expression.name;
  const before = expression.expression;
  if (text === "finally") return ts.isCallExpression(before) && handlesRejection(before);
  return text === "catch" && given.length === 1 || text === "then" && given.length === 2;
}

function isPromise(type: ts.Type): boolean {
  if (type.isUnion()) return type.types.some(isPromise);
  return type.getSymbol()?.name === "Promise" || type.getProperty("then") !== undefined;
}

async function* sources(folder: string): AsyncGenerator<string> {
  for await (const { name, isDirectory } of Deno.readDir(`${ROOT}${folder}`)) {
    const path = `${folder}/${name}`;
    if (EXCLUDED.some((part) => `${path}/`.includes(part))) continue;
    if (isDirectory) yield* sources(path);
    else if (name.endsWith(".ts") && !name.endsWith(".d.ts")) yield `${ROOT}${path}`;
  }
}

if (import.meta.main) {
  const named = Deno.args.map((path) => Deno.realPathSync(path));
  const files = named.length > 0 ? named : await checkedFiles();
  const { floating, nested } = await brokenRules(files);
  for (const { file, line, text } of floating) {
    console.error(`${file}:${line}: a promise that nobody awaits: ${text}`);
  }
  if (floating.length > 0) console.error("await it, or write `void` before it if it is left to itself");
  for (const { file, line, text } of nested) {
    console.error(`${file}:${line}: a conditional expression within another one: ${text}`);
  }
  if (nested.length > 0) console.error("use `if`, a table, or a name for the inner one");
  Deno.exit(floating.length + nested.length === 0 ? 0 : 1);
}
