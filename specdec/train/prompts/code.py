"""Prompts about programs: write, finish, explain, mend and test them, and queries and commands."""

from specdec.train.prompts.topics import TECHNOLOGY, listed
from specdec.train.prompts.words import Pick, plain, sentence

LANGUAGES = listed("""
Python; Python; Python; Python; Python; JavaScript; JavaScript; TypeScript; Java; C; C++; Go; Rust; Ruby;
Bash; R; Kotlin; Haskell; PHP; Swift
""")

# name / what it does (Write a function that ___ .) / parameters and result / an example
TASKS = listed("""
count_words / returns how often each word occurs in a text / text: str) -> dict[str, int] / count_words("a b
a") == {"a": 2, "b": 1}; is_leap_year / tells whether a year is a leap year / year: int) -> bool /
is_leap_year(1996) is True; reverse_words / reverses the order of the words in a sentence / sentence: str) ->
str / reverse_words("red blue green") == "green blue red"; running_total / returns the running sums of a list
of numbers / numbers: list[float]) -> list[float] / running_total([1, 2, 3]) == [1, 3, 6]; merge_sorted /
merges two sorted lists into one sorted list / a: list[int], b: list[int]) -> list[int] / merge_sorted([1,
4], [2]) == [1, 2, 4]; rotate / moves the last k items of a list to its front / items: list, k: int) -> list
/ rotate([1, 2, 3, 4], 1) == [4, 1, 2, 3]; flatten / turns a nested list into a flat one / nested: list) ->
list / flatten([1, [2, [3]]]) == [1, 2, 3]; is_anagram / tells whether two words use the same letters / a:
str, b: str) -> bool / is_anagram("listen", "silent") is True; caesar / shifts each letter of a text by n
places / text: str, n: int) -> str / caesar("abz", 1) == "bca"; to_roman / writes a positive number in Roman
numerals / number: int) -> str / to_roman(14) == "XIV"; from_roman / reads a number written in Roman numerals
/ text: str) -> int / from_roman("XIV") == 14; binary_search / finds the index of a value in a sorted list,
or -1 / items: list[int], value: int) -> int / binary_search([2, 5, 9], 5) == 1; second_largest / returns the
second largest of distinct numbers / numbers: list[int]) -> int / second_largest([4, 9, 7]) == 7; median /
returns the median of a list of numbers / numbers: list[float]) -> float / median([3, 1, 2]) == 2; transpose
/ swaps the rows and columns of a matrix / rows: list[list]) -> list[list] / transpose([[1, 2], [3, 4]]) ==
[[1, 3], [2, 4]]; digits_sum / adds the decimal digits of a number / number: int) -> int / digits_sum(407) ==
11; is_prime / tells whether a number is prime / n: int) -> bool / is_prime(13) is True; primes_up_to / lists
the primes up to n / n: int) -> list[int] / primes_up_to(10) == [2, 3, 5, 7]; gcd / computes the greatest
common divisor of two numbers / a: int, b: int) -> int / gcd(12, 18) == 6; fibonacci / returns the first n
Fibonacci numbers / n: int) -> list[int] / fibonacci(5) == [0, 1, 1, 2, 3]; collatz_length / counts the steps
until the Collatz sequence reaches 1 / n: int) -> int / collatz_length(6) == 8; chunk / cuts a list into
pieces of a given size / items: list, size: int) -> list[list] / chunk([1, 2, 3], 2) == [[1, 2], [3]]; unique
/ removes duplicates but keeps the order / items: list) -> list / unique([3, 1, 3]) == [3, 1]; most_common /
returns the item that occurs most often / items: list) / most_common(["a", "b", "a"]) == "a"; group_by_length
/ groups words by their length / words: list[str]) -> dict[int, list[str]] / group_by_length(["to", "be",
"you"]) == {2: ["to", "be"], 3: ["you"]}; balanced / checks whether the brackets in a text match / text: str)
-> bool / balanced("(a[b]{c})") is True; longest_word / returns the longest word of a sentence / sentence:
str) -> str / longest_word("a quick test") == "quick"; title_case / capitalises each word except small ones
such as "of" / text: str) -> str / title_case("lord of cats") == "Lord of Cats"; compress / writes repeated
letters as a letter and a count / text: str) -> str / compress("aaab") == "a3b1"; hamming / counts the places
where two strings of equal length differ / a: str, b: str) -> int / hamming("karma", "karts") == 2;
edit_distance / computes the edit distance of two words / a: str, b: str) -> int / edit_distance("kitten",
"sitting") == 3; moving_average / averages each window of k numbers / numbers: list[float], k: int) ->
list[float] / moving_average([1, 3, 5], 2) == [2, 4]; parse_duration / turns a text such as "1h30m" into
seconds / text: str) -> int / parse_duration("1h30m") == 5400; celsius_to_fahrenheit / converts degrees
Celsius to Fahrenheit / degrees: float) -> float / celsius_to_fahrenheit(100) == 212; change / gives back an
amount of cents in as few coins as possible / cents: int) -> dict[int, int] / change(30) == {20: 1, 10: 1};
overlap / tells whether two time intervals overlap / a: tuple, b: tuple) -> bool / overlap((1, 3), (2, 5)) is
True; knapsack / returns the best value that fits a weight limit / items: list[tuple], limit: int) -> int /
knapsack([(2, 3), (3, 4)], 3) == 4; shortest_path / finds a shortest path in an unweighted graph / graph:
dict, start: str, goal: str) -> list / shortest_path({"a": ["b"], "b": []}, "a", "b") == ["a", "b"]; depth /
returns the depth of a nested dictionary / tree: dict) -> int / depth({"a": {"b": {}}}) == 2; valid_email /
does a simple check of an e-mail address / address: str) -> bool / valid_email("me@home.example") is True;
mask_card / hides all but the last four digits of a card number / number: str) -> str /
mask_card("1234567812345678").endswith("5678"); evens_first / puts even numbers before odd ones, otherwise
keeping order / numbers: list[int]) -> list[int] / evens_first([3, 2, 5, 4]) == [2, 4, 3, 5]; pairs_with_sum
/ lists the pairs of numbers that add up to a target / numbers: list[int], target: int) -> list[tuple] /
pairs_with_sum([1, 4, 3], 7) == [(4, 3)]; slugify / makes a URL slug out of a title / title: str) -> str /
slugify("Hello, World!") == "hello-world"; wrap / breaks a text into lines of at most n characters / text:
str, n: int) -> list[str] / wrap("aa bb cc", 5) == ["aa bb", "cc"]; histogram / draws a text histogram of a
list of numbers / numbers: list[int]) -> str / histogram([1, 3]) == "*\\n***"; is_subsequence / tells whether
one string is a subsequence of another / small: str, large: str) -> bool / is_subsequence("ace", "abcde") is
True; spiral / reads a matrix in spiral order / rows: list[list[int]]) -> list[int] / spiral([[1, 2], [4,
3]]) == [1, 2, 3, 4]; power_set / lists all subsets of a list / items: list) -> list[list] /
len(power_set([1, 2, 3])) == 8; perfect_number / tells whether a number equals the sum of its proper divisors
/ n: int) -> bool / perfect_number(28) is True; bmi / computes the body mass index from kilograms and metres
/ kg: float, m: float) -> float / round(bmi(70, 1.75), 1) == 22.9; grade / turns a score from 0 to 100 into a
letter / score: int) -> str / grade(91) == "A"; days_between / counts the days between two ISO dates / a:
str, b: str) -> int / days_between("2024-01-01", "2024-01-31") == 30
""")
PROGRAMS = listed("""
a to-do list on the command line; a guessing game; a tic-tac-toe board; a stopwatch; a bank account class; a
stack with push and pop; a queue built from two stacks; a linked list with an insert method; a binary search
tree; a least-recently-used cache; a rate limiter; a matrix class; a class for fractions; a vending machine;
a parking garage; a library with loans; an address book saved as JSON; a CSV reader; a word counter for a
file; a script that renames files by date; a script that finds duplicate files; a web server that returns the
time; a page with a button that counts clicks; a form with validation; a login form; a responsive navigation
bar; a client for a weather API; a retry decorator; a context manager that measures time; a generator of
random passwords; a Markov chain text generator; a simple chatbot; a spell checker; a unit converter; a
temperature logger; a dice simulator; a Monte Carlo estimate of pi; the game of life; a maze solver; a Sudoku
checker; a priority queue; a topological sort; a thread pool; a producer and a consumer; an event emitter; an
undo stack; a tokenizer for arithmetic expressions; a calculator with parentheses
""")
SNIPPETS = [
    "for i in range(10):\n    if i % 3 == 0:\n        print(i)",
    "def f(n):\n    return 1 if n < 2 else n * f(n - 1)",
    "squares = {x: x * x for x in range(6) if x % 2}",
    "def add(item, items=[]):\n    items.append(item)\n    return items",
    "total = 0\nfor line in open('sales.csv'):\n    total += float(line.split(',')[2])\nprint(total)",
    "names = ['Ann', 'Bo', 'Cy']\nfor i in range(1, len(names)):\n    print(i, names[i])",
    "try:\n    value = int(input('age: '))\nexcept:\n    value = 0",
    "const total = items.reduce((sum, item) => sum + item.price, 0);",
    "let x = '5';\nif (x == 5) console.log(x + 1);",
    "async function load(url) {\n  const reply = fetch(url);\n  return reply.json();\n}",
    "document.querySelectorAll('li').forEach((li, i) => { li.textContent = i; });",
    "int *p = malloc(10 * sizeof(int));\nfor (int i = 0; i <= 10; i++) p[i] = i;",
    "public static int max(int[] a) {\n  int m = 0;\n  for (int x : a) if (x > m) m = x;\n  return m;\n}",
    "fn longest(a: &str, b: &str) -> &str {\n    if a.len() > b.len() { a } else { b }\n}",
    "func main() {\n\tch := make(chan int)\n\tch <- 1\n\tfmt.Println(<-ch)\n}",
    "SELECT city, COUNT(*) FROM customers WHERE age > 30 GROUP BY city HAVING COUNT(*) > 5;",
    "SELECT name FROM staff ORDER BY salary DESC LIMIT 3;",
    "find . -name '*.log' -mtime +7 -delete",
    "grep -r 'TODO' src | wc -l",
    "import re\nre.findall(r'\\b\\d{4}\\b', text)",
    "x = [1, 2, 3]\ny = x\ny.append(4)\nprint(x)",
    "def mean(values):\n    return sum(values) / len(values)",
    "while lo < hi:\n    m = (lo + hi) // 2\n    if a[m] < x:\n        lo = m\n    else:\n        hi = m",
    "class Dog:\n    tricks = []\n    def learn(self, trick):\n        self.tricks.append(trick)",
    "words = text.lower().split()\ncounts = {}\nfor w in words:\n    counts[w] += 1",
    "df = pd.read_csv('data.csv')\nprint(df.groupby('month')['sales'].mean())",
    "x = np.arange(12).reshape(3, 4)\nprint(x[:, 1:3].sum(axis=0))",
    "<ul>\n  <li>Milk\n  <li>Bread\n</ul>",
    ".box { display: flex; justify-content: center; height: 100vh; }",
    "FROM python:3.12\nCOPY . .\nRUN pip install -r requirements.txt\nCMD python app.py",
]
ERRORS = listed("""
IndexError: list index out of range; KeyError: 'name'; TypeError: can only concatenate str (not "int") to
str; AttributeError: 'NoneType' object has no attribute 'append'; ValueError: invalid literal for int() with
base 10: ''; ModuleNotFoundError: No module named 'requests'; RecursionError: maximum recursion depth
exceeded; ZeroDivisionError: division by zero; UnboundLocalError: local variable used before assignment;
SyntaxError: unexpected EOF; segmentation fault; undefined is not a function; CORS policy: no
'Access-Control-Allow-Origin' header; NullPointerException; permission denied (publickey); address already in
use; merge conflict; fatal: not a git repository; out of memory; 404 Not Found; 500 Internal Server Error;
connection refused
""")
TABLES = {
    "orders": "id, customer_id, total, created_at",
    "students": "id, name, class, average",
    "books": "isbn, title, author_id, year",
    "flights": "number, origin, destination, departs_at, seats",
    "employees": "id, name, department, salary, hired_on",
    "songs": "id, title, artist, seconds, plays",
}
QUERIES = listed("""
the five rows with the largest {c}; the number of rows per {c}; all rows whose {c} is missing; the average
{c2} per {c}; duplicates in {c}; rows added in the last seven days; the second highest {c}; every {c} that
appears more than twice; all rows sorted by {c}, then by {c2}
""")
OTHER = listed("""
How do I [read a file line by line|sort a dictionary by value|parse JSON|call an API|format a date|write a
unit test|remove duplicates from a list|measure how long a function takes|handle errors|make a copy of a
list|read command-line arguments|connect to a database|work with dates] in {lang}?; Write a regular
expression that matches {thing}. Explain it.; What does this error mean, and how do I fix it? {error}; I get
"{error}" when I run my {lang} program. What should I check?; What is the difference between [a list and a
tuple|== and is|let and const|a class and an object|an interface and an abstract class|a pointer and a
reference|shallow and deep copies|map and filter|a left join and an inner join|git merge and git rebase|unit
and integration tests]?; Explain {concept} with a short example in {lang}.; Write a [bash|shell] command that
[lists the ten largest files|counts the lines of all Python files|replaces a word in many files|shows which
process uses port 8080|finds files changed today|downloads a page every hour].; Which data structure would
you use for {thing2}, and why?; Write a git command to [undo the last commit|see who changed a line|squash
three commits|delete a remote branch|stash changes].; Suggest better names for these variables: {names}.;
Write a docstring for a function called {name} that {does}.; Write test cases for a function that {does}.;
What is the time complexity of {algorithm}?; Design a database schema for {system}.; Design a REST API for
{system}. List the endpoints.; Write pseudocode for {algorithm}.; How would you test {system}?
""")
MATCHED = listed("""
an ISO date; a hexadecimal colour; a phone number; a postcode of five digits; an IPv4 address; a quoted
string; a word with a double letter; a price in euros; a hashtag; a time such as 14:05; a version number; a
trailing space
""")
STRUCTURES = listed("""
a phone book; an undo feature; a leaderboard; autocomplete; a print queue; a road map; a family tree;
counting visitors; a shopping cart; a timetable; a spell checker; a cache
""")
ALGORITHMS = listed("""
binary search; bubble sort; merge sort; quicksort; Dijkstra's algorithm; depth-first search; inserting into a
hash table; matrix multiplication; finding the maximum; checking for duplicates; a sieve for primes; the
Euclidean algorithm; topological sorting; reversing a linked list; heap sort
""")
SYSTEMS = listed("""
a library; a hotel; an online shop; a school timetable; a recipe app; a bike-sharing service; a hospital
ward; a chat application; a job board; a gym; a cinema with seats; a parcel service; a quiz game; a blog with
comments; a ride-hailing app; a polling tool
""")
FRAMES = listed("""
Write a {lang} function that {does}.; Write a {lang} function `{name}` that {does}. Include [a docstring|type
hints|two tests|an example|error handling].; Can you write a function that {does}? Use {lang}.; In {lang},
how would you write code that {does}?; I need a {lang} one-liner that {does}.; Write a recursive {lang}
function that {does}.; {name}: {does}. Implement it in {lang} without libraries.; Write an efficient {lang}
function that {does}, and state its complexity.
""")


def completion(pick: Pick) -> str:
    """The beginning of a Python function with its docstring, to be finished."""
    name, does, signature, example = pick.one(TASKS).split(" / ")
    signature = signature if ")" in signature else f"{signature})"
    quote = pick.one(['"""', '"""', "'''"])
    call, _, value = example.partition(" == ")
    shown = f"\n    >>> {call}\n    {value}" if value and pick.chance(0.6) else f"\n    Example: {example}"
    told = shown if pick.chance(0.8) else ""
    body = f"def {name}({signature}:\n    {quote}{sentence(does)}.{told}\n    {quote}\n"
    lead = [
        "Finish this function:",
        "Complete the following Python function.",
        "Fill in the body.",
        "Implement this:",
        "",
        "Write the missing code below.",
        "Please implement:",
        "What is missing here?",
    ]
    head = pick.one(["", "", "", "import math\n\n", "from typing import Any\n\n"])
    return f"{pick.one(lead)}\n\n{head}{body}".strip() + "\n"


def on_snippet(pick: Pick) -> str:
    asks = listed("""
        What does this code do?; Explain this code line by line.; Is there a bug in this?; Find the bug and
        fix it.; How can this be improved?; Rewrite this more clearly.; What is printed?; Add comments.; Add
        error handling.; Translate this to {lang}.; Write a test for this.; Review this code.; Make it
        faster.; Turn this into a function with a good name.; What could go wrong here?; Simplify:
    """)
    ask = pick.fill(pick.one(asks), {"lang": pick.one(LANGUAGES)})
    code = pick.one(SNIPPETS)
    code = f"```\n{code}\n```" if pick.chance(0.6) else code
    return f"{ask}\n\n{code}" if pick.chance(0.75) else f"{code}\n\n{ask}"


def query(pick: Pick) -> str:
    table = pick.one(list(TABLES))
    columns = TABLES[table].split(", ")
    c, c2 = pick.some(columns, 2)
    wanted = pick.fill(pick.one(QUERIES), {"c": c, "c2": c2})
    return pick.fill(
        "[Write an SQL query for|How do I get|Give me the SQL for] {w} from a table {t} ({cs}).",
        {"w": wanted, "t": table, "cs": TABLES[table]},
    )


def code(pick: Pick) -> str:
    name, does, *_ = pick.one(TASKS).split(" / ")
    lang = pick.one(LANGUAGES)
    sort = pick.choices(["complete", "write", "program", "snippet", "query", "other"], [6, 5, 3, 3, 1, 5])[0]
    if sort == "complete":
        return completion(pick)
    if sort == "snippet":
        return on_snippet(pick)
    if sort == "query":
        return query(pick)
    if sort == "program":
        what = pick.one(PROGRAMS)
        return pick.fill(
            "[Write|Implement|Create|Show me|Sketch] {what} in {lang}.[| Keep it simple.| Comment the code.| "
            "Use no libraries.| Explain how it works.| Include an example.]",
            {"what": what, "lang": lang},
        )
    values = {
        "lang": lang,
        "name": name,
        "does": does,
        "error": pick.one(ERRORS),
        "thing": pick.one(MATCHED),
        "thing2": pick.one(STRUCTURES),
        "algorithm": pick.one(ALGORITHMS),
        "system": pick.one(SYSTEMS),
        "concept": plain(pick.one(TECHNOLOGY[12:44])),
        "names": ", ".join(
            pick.some(
                listed("""
            x1; tmp; data2; flag; foo; lst; val; res; cnt; obj; s; mgr
        """),
                3,
            )
        ),
    }
    return sentence(pick.fill(pick.one(FRAMES if sort == "write" else OTHER), values))
