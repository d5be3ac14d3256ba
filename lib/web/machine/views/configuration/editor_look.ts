/** What all text editors of the pages look like, and where they stand. */

import { HighlightStyle } from "@codemirror/language";
import { EditorView } from "@codemirror/view";
import { tags } from "@lezer/highlight";

export const colours = HighlightStyle.define([
  { tag: tags.propertyName, color: "var(--accent)" },
  { tag: tags.string, color: "var(--plot-3)" },
  { tag: tags.number, color: "var(--warn)" },
  { tag: [tags.bool, tags.null], color: "var(--plot-4)" },
  { tag: tags.comment, color: "var(--ink-soft)", fontStyle: "italic" },
]);
export const look = EditorView.theme({
  "&": { height: "100%", backgroundColor: "var(--surface)", color: "var(--ink)", fontSize: "12.5px" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.5" },
  ".cm-content": { caretColor: "var(--ink)" },
  ".cm-cursor": { borderLeftColor: "var(--ink)" },
  ".cm-gutters": {
    backgroundColor: "var(--sunken)",
    color: "var(--ink-soft)",
    borderRight: "1px solid var(--line)",
  },
  ".cm-activeLine": { backgroundColor: "transparent" },
  "&.cm-focused .cm-activeLine": { backgroundColor: "var(--accent-soft)" },
  "&.cm-focused, & .cm-scroller:focus-visible": { outline: "2px solid var(--accent)", outlineOffset: "-2px" },
  ".tab-hint": { padding: "2px 8px", color: "var(--ink-soft)" },
  "&:not(.cm-focused) .tab-hint": { display: "none" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": {
    backgroundColor: "color-mix(in srgb, var(--accent) 30%, transparent)",
  },
  ".cm-tooltip, .cm-panels": {
    backgroundColor: "var(--raised)",
    color: "var(--ink)",
    border: "1px solid var(--line)",
    fontFamily: "var(--font)",
  },
  ".cm-tooltip.explanation": { padding: "6px 8px", maxWidth: "420px" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": {
    backgroundColor: "var(--accent)",
    color: "var(--accent-ink)",
  },
  ".cm-collapsedLines": {
    backgroundColor: "var(--sunken)",
    backgroundImage: "none",
    color: "var(--ink-soft)",
  },
  ".cm-collapsedLines::before, .cm-collapsedLines::after": { content: '""' },
  ".cm-changedLine": { backgroundColor: "var(--good-soft)" },
  ".cm-deletedChunk": { backgroundColor: "var(--bad-soft)" },
  ".cm-deletedChunk .cm-deletedText, .cm-deletedText": { background: "none" },
  ".cm-changedLine .cm-changedText, .cm-changedText, .cm-insertedLine": { background: "none" },
  ".cm-deletedChunk del, .cm-changedText": { textDecoration: "none", backgroundImage: "none" },
});

/** A place in a shadow tree of an element, where an editor's style sheets need no permission of the page's policy. */
export function shadowPosition(
  element: HTMLElement,
): { readonly parent: HTMLElement; readonly root: ShadowRoot } {
  const root = element.attachShadow({ mode: "open" });
  const parent = document.createElement("div");
  parent.className = "inner";
  root.append(parent);
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(":host { display: block; height: 100%; } .inner { height: 100%; }");
  root.adoptedStyleSheets = [sheet];
  return { parent, root };
}
