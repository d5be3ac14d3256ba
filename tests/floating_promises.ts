/**
 * `deno run -A tests/floating_promises.ts [FILE…]`: finds promises that nobody awaits, in the whole tree or the named files.
 *
 * A removed `await` changes no type, and most tests pass without it. A statement whose value is a promise is therefore
 * refused; `void` before it says that it is left to itself on purpose, and a handler of its rejection says so too.
 * Prints a line for each; ends with 1 if there is any.
 */

import { relative } from "node:path";
import { fileURLToPath } from "node:url";
import ts from "typescript";

const ROOT = fileURLToPath(new URL("../", import.meta.url));
const FOLDERS = ["cli", "drivers", "examples", "lib", "tests"];
/** Generated code, and sources of the browser's page, which have a build of their own. */
const EXCLUDED = ["lib/web/", "node_modules/", "proto/gen/"];

/** A promise that a statement drops. */
export interface FloatingPromise {
  /** From the root of the tree. */
  readonly file: string;
  readonly line: number;
  readonly text: string;
}

export async function floatingPromises(files: readonly string[]): Promise<FloatingPromise[]> {
  const program = await createProgram(files);
  const checker = program.getTypeChecker();
  const wanted = new Set(files);
  const found: FloatingPromise[] = [];
  for (const source of program.getSourceFiles()) {
    if (!wanted.has(source.fileName)) continue;

    const visit = (node: ts.Node) => {
      if (ts.isExpressionStatement(node) && isFloating(node.expression, checker)) {
        const { line } = source.getLineAndCharacterOfPosition(node.getStart(source));
        const [text] = node.getText(source).split("\n");
        found.push({ file: relative(ROOT, source.fileName), line: line + 1, text });
      }
      ts.forEachChild(node, visit);
    };
    visit(source);
  }
  return found;
}

/** TypeScript's view of the files, with Deno's own types. What comes from packages has no types here, and floats unseen. */
async function createProgram(files: readonly string[]): Promise<ts.Program> {
  const types = await Deno.makeTempFile({ suffix: ".d.ts" });
  try {
    const { stdout } = await new Deno.Command(Deno.execPath(), { args: ["types"] }).output();
    await Deno.writeFile(types, stdout);
    return ts.createProgram([types, ...files], {
      target: ts.ScriptTarget.ESNext,
      module: ts.ModuleKind.ESNext,
      moduleResolution: ts.ModuleResolutionKind.Bundler,
      allowImportingTsExtensions: true,
      noEmit: true,
      lib: ["lib.esnext.d.ts"],
      skipLibCheck: true,
      strict: true,
      types: [],
    });
  } finally {
    await Deno.remove(types);
  }
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
  return ts.isCallExpression(bare) && !handlesRejection(bare) && isPromise(checker.getTypeAtLocation(bare));
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
  const files = named.length > 0 ? named : await Array.fromAsync(joined(FOLDERS));
  const found = await floatingPromises(files);
  for (const { file, line, text } of found) {
    console.error(`${file}:${line}: a promise that nobody awaits: ${text}`);
  }
  if (found.length > 0) console.error("await it, or write `void` before it if it is left to itself");
  Deno.exit(found.length === 0 ? 0 : 1);
}

async function* joined(folders: readonly string[]): AsyncGenerator<string> {
  for (const folder of folders) yield* sources(folder);
}
