/**
 * Places the resources of a machine in columns, each after all that it depends on, with few crossings of lines. A pure
 * function; a graph with a cycle, which a machine reports as an error, is placed as well.
 */

export interface GraphInput {
  readonly id: string;
  readonly dependsOn: readonly string[];
}

export interface PlacedNode {
  readonly id: string;
  readonly x: number;
  readonly y: number;
}

export interface PlacedLine {
  readonly from: string;
  readonly to: string;
  readonly path: string;
}

export interface GraphLayout {
  readonly nodes: readonly PlacedNode[];
  readonly lines: readonly PlacedLine[];
  readonly width: number;
  readonly height: number;
}

export const NODE_WIDTH = 168;
export const NODE_HEIGHT = 40;
const COLUMN_GAP = 72;
const ROW_GAP = 12;
const SWEEPS = 4;

export function graphLayoutOf(inputs: readonly GraphInput[]): GraphLayout {
  const known = new Set(inputs.map(({ id }) => id));
  const edges = new Map(
    inputs.map(({ id, dependsOn }) => [id, dependsOn.filter((one) => known.has(one) && one !== id)]),
  );
  const depths = depthsOf(edges);
  const columns: string[][] = [];
  for (const { id } of inputs) (columns[depths.get(id)!] ??= []).push(id);
  const filled = columns.filter((column) => column !== undefined);
  order(filled, edges);

  const nodes = filled.flatMap((column, x) =>
    column.map((id, y) => ({ id, x: x * (NODE_WIDTH + COLUMN_GAP), y: y * (NODE_HEIGHT + ROW_GAP) }))
  );
  const placed = new Map(nodes.map((node) => [node.id, node]));
  const lines = [...edges].flatMap(([id, targets]) =>
    targets.map((target) => line(placed.get(id)!, placed.get(target)!))
  );
  const highest = Math.max(1, ...filled.map(({ length }) => length));
  return {
    nodes,
    lines,
    width: Math.max(1, filled.length) * (NODE_WIDTH + COLUMN_GAP) - COLUMN_GAP,
    height: highest * (NODE_HEIGHT + ROW_GAP) - ROW_GAP,
  };
}

/** The length of the longest way to each node; a way that returns to itself ends there. */
function depthsOf(edges: ReadonlyMap<string, readonly string[]>): ReadonlyMap<string, number> {
  const depths = new Map<string, number>();
  const under = new Set<string>();
  const visit = (id: string): number => {
    const found = depths.get(id);
    if (found !== undefined) return found;
    if (under.has(id)) return 0;
    under.add(id);
    let depth = 0;
    for (const target of edges.get(id) ?? []) depth = Math.max(depth, visit(target) + 1);
    under.delete(id);
    depths.set(id, depth);
    return depth;
  };
  for (const id of edges.keys()) visit(id);
  return depths;
}

/** Sorts each column by the mean place of the neighbours of its nodes. */
function order(columns: string[][], edges: ReadonlyMap<string, readonly string[]>): void {
  const neighbours = new Map<string, string[]>();
  const add = (id: string, other: string) => neighbours.set(id, [...neighbours.get(id) ?? [], other]);
  for (const [id, targets] of edges) {
    for (const target of targets) {
      add(id, target);
      add(target, id);
    }
  }
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    const rows = new Map(
      columns.flatMap((column) => column.map((id, row) => [id, row / column.length] as const)),
    );
    for (const column of columns) {
      const mean = (id: string) => {
        const all = neighbours.get(id) ?? [];
        return all.length === 0
          ? rows.get(id)!
          : all.reduce((sum, one) => sum + rows.get(one)!, 0) / all.length;
      };
      const means = new Map(column.map((id) => [id, mean(id)]));
      column.sort((a, b) => means.get(a)! - means.get(b)!);
    }
  }
}

/** From the left edge of a node to the right edge of what it depends on. */
function line(node: PlacedNode, target: PlacedNode): PlacedLine {
  const [x1, y1] = [node.x, node.y + NODE_HEIGHT / 2];
  const [x2, y2] = [target.x + NODE_WIDTH, target.y + NODE_HEIGHT / 2];
  const bend = Math.max(24, Math.abs(x1 - x2) / 2);
  return {
    from: node.id,
    to: target.id,
    path: `M${x1} ${y1}C${x1 - bend} ${y1} ${x2 + bend} ${y2} ${x2} ${y2}`,
  };
}
