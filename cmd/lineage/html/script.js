
"use strict";
// A search in the tree, and two buttons. The page is complete without it.
(() => {
	const tree = document.getElementById("tree"), tools = document.getElementById("tools");
	const find = document.getElementById("find"), found = document.getElementById("found");
	const folds = () => tree.querySelectorAll("details");
	const begun = new Map(); // how each was before the first search
	let late = 0;

	const search = () => {
		const words = find.value.toLowerCase().split(" ").filter(w => w);
		if (begun.size === 0) for (const d of folds()) begun.set(d, d.open);
		for (const e of tree.querySelectorAll(".hit, .way")) e.classList.remove("hit", "way");
		tree.classList.toggle("searched", words.length > 0);
		found.textContent = "";
		if (words.length === 0) {
			for (const [d, open] of begun) d.open = open;
			begun.clear();
			return;
		}
		let hits = 0;
		for (const code of tree.querySelectorAll("li code")) {
			const line = code.parentElement, li = line.closest("li"), list = line.nextElementSibling;
			let text = line.textContent;
			if (line.tagName === "SUMMARY" && list && list.tagName === "PRE") text += list.textContent;
			text = text.toLowerCase();
			if (!words.every(w => text.includes(w))) continue;
			hits++;
			li.classList.add("hit");
			for (let up = li.parentElement.closest("li"); up && !up.classList.contains("way"); up = up.parentElement.closest("li")) up.classList.add("way");
		}
		for (const d of folds()) d.open = d.parentElement.classList.contains("way");
		found.textContent = hits === 1 ? "1 line" : hits + " lines";
	};
	const all = open => { for (const d of folds()) d.open = open; };

	tools.hidden = false;
	find.addEventListener("input", () => { clearTimeout(late); late = setTimeout(search, 150); });
	document.getElementById("unfold").addEventListener("click", () => all(true));
	document.getElementById("fold").addEventListener("click", () => all(false));
})();
