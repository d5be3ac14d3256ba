/**
 * What people have typed and not saved: asks them before the page leaves it, by an address of its own, by a choice, or
 * for another page. Every form registers here what it holds, and both pages follow their addresses here.
 */

import { untrack } from "svelte";

const QUESTION = "What you have typed here is not saved. Leave it?";

/** Of the forms that are on the page: whether each holds something that would be lost on the way to an address. */
const forms = new Set<(hash?: string) => boolean>();
/** The person has agreed, or the form has been sent. */
let isAgreed = false;

/** Without an address, on the way to another page. */
function losesSomething(hash?: string): boolean {
  return [...forms].some((loses) => loses(hash));
}

/**
 * For the beginning of a form's component: `holds` says whether something in it would be lost, and `outlives` at which
 * addresses it stays as it is.
 */
export function keepsUnsaved(holds: () => boolean, outlives?: (hash: string) => boolean): void {
  $effect(() => {
    const loses = (hash?: string) => untrack(holds) && !(hash !== undefined && outlives?.(hash));
    forms.add(loses);
    return () => void forms.delete(loses);
  });
}

/** Whether the forms that are on the page may go: nothing is lost, or the person agrees. */
export function mayLeave(hash?: string): boolean {
  return !losesSomething(hash) || confirm(QUESTION);
}

/** Goes to an address without a question, because the form has been sent or its person has been asked. */
export function leaveFor(hash: string): void {
  // The same address is no change, and the next one is to be asked about.
  if (location.hash === hash) return;
  isAgreed = true;
  location.hash = hash;
}

/** Goes to an address for a choice in a list, which shows the former choice again if the person stays. */
export function chooseAddress(list: HTMLSelectElement, hash: string, former: string): void {
  if (mayLeave(hash)) leaveFor(hash);
  else list.value = former;
}

/**
 * Calls `onchange` with each further address that the person really goes to. Each entry of the browser's history gets
 * its number, so that a person who stays is brought back to the entry of this address, wherever the other one lies.
 */
export function followAddress(onchange: (hash: string) => void): void {
  let hash = location.hash;
  let at: number = history.state?.at ?? 0;
  let length = history.length;
  const stay = (entry: number) => {
    at = entry;
    length = history.length;
    history.replaceState({ at }, "");
  };
  stay(at);

  addEventListener("popstate", () => {
    const entry: number | undefined = history.state?.at;
    const isSame = location.hash === hash;
    const goes = isSame || isAgreed || mayLeave(location.hash);
    isAgreed = false;
    if (!goes) return history.go(entry === undefined ? -1 : at - entry);
    // The address that is open already may have replaced its entry.
    stay(entry ?? (isSame && history.length === length ? at : at + 1));
    if (isSame) return;
    hash = location.hash;
    onchange(hash);
  });
  addEventListener("beforeunload", (event) => {
    if (losesSomething()) event.preventDefault();
  });
}
