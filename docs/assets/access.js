// A name for the search dialog, code that can be scrolled with the keyboard, and names that tell the buttons beside
// blocks of code apart: the theme has none of them.
document.addEventListener("DOMContentLoaded", () => {
  document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
  for (const code of document.querySelectorAll("pre > code")) code.tabIndex = 0;
  const name = () =>
    document.querySelectorAll(".md-code__nav:not([aria-label])").forEach((nav) => {
      const blocks = [...document.querySelectorAll("pre")];
      nav.setAttribute("aria-label", `Code block ${1 + blocks.indexOf(nav.closest("pre"))}`);
    });
  name();
  new MutationObserver(name).observe(document.body, { childList: true, subtree: true });
});
window.addEventListener("load", () => {
  for (const table of document.querySelectorAll(".md-typeset__scrollwrap")) table.tabIndex = 0;
});
