/**
 * The small faults that a programmer makes, on the syntax tree of a file: each mutant is one edit of its text.
 */

import ts from "typescript";

export interface Mutant {
  /** From the root of the tree. */
  readonly file: string;
  readonly line: number;
  /** Where the block begins that the line is in. */
  readonly blockLine: number;
  readonly start: number;
  readonly end: number;
  /** The text in place of the one between `start` and `end`. */
  readonly replacement: string;
  /** The kind of fault, such as `removed call`. */
  readonly kind: string;
  /** The line before, without its indentation, and what the edit makes of the text: to know it again when lines move. */
  readonly before: string;
  readonly edit: string;
}

const COMPARISONS: Readonly<Record<string, string>> = {
  "<": "<=",
  "<=": "<",
  ">": ">=",
  ">=": ">",
  "===": "!==",
  "!==": "===",
  "&&": "||",
  "||": "&&",
  "+": "-",
  "-": "+",
  "*": "/",
  "/": "*",
};
/** Codes of errors: another one in place of each. */
const CODES: Readonly<Record<string, string>> = {
  invalid_argument: "internal",
  not_found: "internal",
  unavailable: "invalid_argument",
  permission_denied: "unauthenticated",
  unauthenticated: "permission_denied",
  failed_precondition: "internal",
  already_exists: "failed_precondition",
  resource_exhausted: "internal",
  deadline_exceeded: "canceled",
  canceled: "deadline_exceeded",
  unimplemented: "internal",
  unknown: "internal",
  internal: "unknown",
};
const EDIT_CHARS = 60;

/** Every mutant of a file. */
export function mutantsOf(file: string, text: string): Mutant[] {
  const source = ts.createSourceFile(file, text, ts.ScriptTarget.ESNext, true);
  const found: Mutant[] = [];
  const add = (node: ts.Node, kind: string, replacement: string) => {
    const [start, end] = [node.getStart(source), node.getEnd()];
    const { line } = source.getLineAndCharacterOfPosition(start);
    const blockLine = source.getLineAndCharacterOfPosition(blockOf(node).getStart(source)).line + 1;
    const before = text.split("\n")[line].trim();
    const edit = `${brief(text.slice(start, end))} → ${brief(replacement)}`;
    found.push({ file, line: line + 1, blockLine, start, end, replacement, kind, before, edit });
  };
  const visit = (node: ts.Node) => {
    if (isDeclarative(node)) return;
    mutate(node, add, source);
    ts.forEachChild(node, visit);
  };
  visit(source);
  return found;
}

/** The text of the file with the fault in it. */
export function withFault(text: string, { start, end, replacement }: Mutant): string {
  return text.slice(0, start) + replacement + text.slice(end);
}

function blockOf(node: ts.Node): ts.Node {
  let block = node.parent;
  while (!ts.isBlock(block) && !ts.isSourceFile(block)) block = block.parent;
  return block;
}

/** Types, imports and decorated text run nothing. */
function isDeclarative(node: ts.Node): boolean {
  return ts.isTypeNode(node) || ts.isImportDeclaration(node) || ts.isExportDeclaration(node) ||
    ts.isInterfaceDeclaration(node) || ts.isTypeAliasDeclaration(node);
}

function mutate(
  node: ts.Node,
  add: (node: ts.Node, kind: string, replacement: string) => void,
  source: ts.SourceFile,
): void {
  if (ts.isExpressionStatement(node) && isEffect(node.expression)) add(node, "removed call", ";");
  if (ts.isAwaitExpression(node)) add(node, "removed await", `(${node.expression.getText(source)})`);
  if (ts.isIfStatement(node)) {
    add(node.expression, "condition never holds", "false");
    if (!node.elseStatement) add(node.expression, "condition always holds", "true");
  }
  if (ts.isConditionalExpression(node)) {
    add(node.condition, "turned condition", `!(${node.condition.getText(source)})`);
  }
  if (ts.isBinaryExpression(node)) {
    const other = COMPARISONS[node.operatorToken.getText(source)];
    if (other !== undefined && !isText(node)) add(node.operatorToken, "other operator", other);
  }
  if (ts.isNumericLiteral(node) && !ts.isPropertyAssignment(node.parent)) {
    add(node, "other number", `(${node.text} + 1)`);
  }
  if (node.kind === ts.SyntaxKind.TrueKeyword) add(node, "other boolean", "false");
  if (node.kind === ts.SyntaxKind.FalseKeyword) add(node, "other boolean", "true");
  if (ts.isStringLiteral(node) && isCode(node)) add(node, "other code", `"${CODES[node.text]}"`);
}

/** A call or an assignment, whose value nobody uses. */
function isEffect(expression: ts.Expression): boolean {
  if (ts.isAwaitExpression(expression) || ts.isVoidExpression(expression)) {
    return isEffect(expression.expression);
  }
  if (ts.isCallExpression(expression)) return expression.expression.kind !== ts.SyntaxKind.SuperKeyword;
  return ts.isBinaryExpression(expression) && expression.operatorToken.kind === ts.SyntaxKind.EqualsToken ||
    ts.isPostfixUnaryExpression(expression) || ts.isDeleteExpression(expression);
}

/** Texts are joined by `+`, too: to take them apart fails at once. */
function isText({ left, right, operatorToken }: ts.BinaryExpression): boolean {
  const isLiteral = (one: ts.Node) => ts.isStringLiteralLike(one) || ts.isTemplateExpression(one);
  return operatorToken.kind === ts.SyntaxKind.PlusToken && (isLiteral(left) || isLiteral(right));
}

/** The code of an error that is thrown. */
function isCode(node: ts.StringLiteral): boolean {
  const { parent } = node;
  return node.text in CODES && ts.isNewExpression(parent) && parent.arguments?.[0] === node;
}

function brief(text: string): string {
  const line = text.replaceAll(/\s+/g, " ");
  return line.length > EDIT_CHARS ? `${line.slice(0, EDIT_CHARS)}…` : line;
}
