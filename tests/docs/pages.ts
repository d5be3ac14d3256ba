/** The pages that people read, and the fenced blocks in them. */

export const ROOT = new URL("../../", import.meta.url).pathname;

/** Pages that are generated from tables have tests of their own. */
const GENERATED = ["docs/spec.md", "docs/published_calls.md"];

export interface Block {
  /** `docs/cloud.md`. */
  readonly page: string;
  /** Its first line, from 1. */
  readonly line: number;
  /** `sh`, `ts`, `json`, …; empty where the page names none. */
  readonly language: string;
  readonly text: string;
}

export async function blocks(): Promise<Block[]> {
  const pages = ["README.md"];
  for await (const { name } of Deno.readDir(`${ROOT}docs`)) {
    if (name.endsWith(".md")) pages.push(`docs/${name}`);
  }
  const found: Block[] = [];
  for (const page of pages.filter((page) => !GENERATED.includes(page)).sort()) {
    const text = await Deno.readTextFile(ROOT + page);
    for (const match of text.matchAll(/^( *)```(\w*)\n([\s\S]*?)^\1```$/gm)) {
      const line = text.slice(0, match.index).split("\n").length;
      found.push({ page, line, language: match[2], text: match[3] });
    }
  }
  return found;
}

/** The commands of a shell block: comments left out, continued lines joined. */
export function commandsOf({ text }: Block): string[] {
  return text.replaceAll("\\\n", " ").split("\n")
    .map((line) => line.replace(/(^|\s)#.*$/, "").replace(/\s+/g, " ").trim())
    .filter((line) => line !== "");
}

/** The one block of a page in which `words` stand. */
export async function blockWith(page: string, words: string): Promise<Block> {
  const fitting = (await blocks()).filter((block) => block.page === page && block.text.includes(words));
  if (fitting.length !== 1) {
    throw new Error(`${page} has ${fitting.length} blocks with ${JSON.stringify(words)}, not 1`);
  }
  return fitting[0];
}
