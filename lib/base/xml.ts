/**
 * XML as a tree of elements. The only file that knows the XML parser.
 *
 * The parser is loaded with the first document. It fetches and expands nothing: a document type is skipped, and refused
 * if it declares entities.
 */

import type { Element } from "@xmldom/xmldom";
import { messageOf, SvcError } from "./error.ts";

export type { Element };

const MESSAGE_LENGTH_MAX = 200;

/** A document type, with its declarations in brackets. */
const DOCUMENT_TYPE = /<!DOCTYPE[^[>]*(\[[^\]]*\]\s*)?>/i;

/** The root of a document. Rejects with `invalid_argument` if it is malformed or declares entities. */
export async function parseXml(text: string): Promise<Element> {
  if (/<!ENTITY/i.test(text)) {
    throw invalid(
      "its document type (<!DOCTYPE>) declares entities, which this program does not read: remove them",
    );
  }

  const xml = text.replace(DOCUMENT_TYPE, "").trimStart();
  if (/<!DOCTYPE/i.test(xml)) {
    throw invalid("it is not well-formed XML: its document type is not complete, or not alone");
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

/** The direct children that are elements, in order. */
export function elementsIn(element: Element): Element[] {
  const found: Element[] = [];
  for (let node = element.firstChild; node; node = node.nextSibling) {
    if (node.nodeType === node.ELEMENT_NODE) found.push(node as Element);
  }
  return found;
}

/** The direct children with this name, in order. */
export function childrenOf(element: Element, name: string): Element[] {
  return elementsIn(element).filter(({ nodeName }) => nodeName === name);
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
