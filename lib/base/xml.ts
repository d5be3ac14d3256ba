/**
 * XML as a tree of elements. The only file that knows the XML parser.
 *
 * The parser is loaded with the first document. It fetches and expands nothing, and refuses a document type, which
 * could declare entities.
 */

import type { Element } from "@xmldom/xmldom";
import { messageOf, SvcError } from "./error.ts";

export type { Element };

const MESSAGE_LENGTH_MAX = 200;

/** The root of a document. Rejects with `invalid_argument` if it is malformed or has a document type. */
export async function parseXml(xml: string): Promise<Element> {
  if (/<!(DOCTYPE|ENTITY)/i.test(xml)) {
    throw invalid("it has a document type (<!DOCTYPE>), which this program does not read: remove it");
  }
  const { DOMParser } = await import("@xmldom/xmldom");
  const refuse = (_level: string, message: string) => {
    throw invalid(message.trim());
  };
  try {
    // Tools leave an empty line or a byte order mark before the declaration.
    const root =
      new DOMParser({ onError: refuse }).parseFromString(xml.trimStart(), "text/xml").documentElement;
    if (root) return root;
  } catch (cause) {
    throw invalid(`it is not well-formed XML: ${messageOf(cause).slice(0, MESSAGE_LENGTH_MAX)}`, cause);
  }
  throw invalid("it has no element");
}

/** The direct children with this name, in order. */
export function childrenOf(element: Element, name: string): Element[] {
  const found: Element[] = [];
  for (let node = element.firstChild; node; node = node.nextSibling) {
    if (node.nodeType === node.ELEMENT_NODE && node.nodeName === name) found.push(node as Element);
  }
  return found;
}

export function childOf(element: Element, name: string): Element | undefined {
  return childrenOf(element, name)[0];
}

/** The text of the first direct child with this name, trimmed. */
export function textIn(element: Element, name: string): string | undefined {
  return childOf(element, name)?.textContent?.trim();
}

function invalid(message: string, cause?: unknown): SvcError {
  return new SvcError("invalid_argument", message, { cause });
}
