/// The statements of chat templates.
#include "runtime/text/chat/ExpressionParser.h"

#include "runtime/base/Json.h"

#include <algorithm>

namespace cria::chat {

/// How deeply statements may be nested.
static constexpr int maxNesting = 50;

namespace {

class Parser : ExpressionParser {
public:
  using ExpressionParser::ExpressionParser;

  Result<std::vector<Statement>> run() {
    std::vector<Statement> statements = parseBody({});
    if (!status.ok())
      return status;
    return statements;
  }

private:
  using Kind = Statement::Kind;
  using Names = std::initializer_list<std::string_view>;

  Statement make(Kind kind) {
    Statement statement;
    statement.kind = kind;
    statement.line = peek().line;
    return statement;
  }

  void closeBlock() {
    if (peek().kind != Token::Kind::CloseBlock)
      return unexpected("'%}'");
    take();
  }

  /// Whether a block begins with one of `names`.
  bool atBlock(Names names) const {
    if (peek().kind != Token::Kind::OpenBlock)
      return false;
    for (std::string_view name : names)
      if (peek(1).kind == Token::Kind::Name && peek(1).text == name)
        return true;
    return false;
  }

  /// The statements up to a block that begins with one of `ends`, or to the end
  /// of the template if `ends` is empty.
  std::vector<Statement> parseBody(Names ends) {
    std::vector<Statement> statements;
    if (++nesting > maxNesting)
      fail("blocks deeper than " + std::to_string(maxNesting));
    while (ok() && !atBlock(ends)) {
      if (peek().kind == Token::Kind::End) {
        if (ends.size() > 0)
          unexpected("'" + std::string(*(ends.end() - 1)) + "'");
        break;
      }
      statements.push_back(parseStatement());
    }
    --nesting;
    return statements;
  }

  /// "{% name %}"
  void endBlock(std::string_view name) {
    take();
    if (!skipName(name))
      unexpected("'" + std::string(name) + "'");
    closeBlock();
  }

  Statement parseStatement() {
    Token token = take();
    Statement statement = make(Kind::Text);
    if (token.kind == Token::Kind::Text) {
      statement.text = std::move(token.text);
      return statement;
    }
    if (token.kind == Token::Kind::OpenPrint) {
      statement.kind = Kind::Print;
      statement.expressions.push_back(parseTuple());
      if (peek().kind != Token::Kind::ClosePrint)
        unexpected("'}}'");
      take();
      return statement;
    }
    return parseBlock();
  }

  Statement parseBlock() {
    static const std::pair<const char *, Statement (Parser::*)()> blocks[] = {
        {"if", &Parser::parseIf},
        {"for", &Parser::parseFor},
        {"set", &Parser::parseSet},
        {"with", &Parser::parseWith},
        {"filter", &Parser::parseFilterBlock},
        {"macro", &Parser::parseMacro},
        {"call", &Parser::parseCall},
        {"break", &Parser::parseBreak},
        {"continue", &Parser::parseContinue},
        {"generation", &Parser::parseGeneration}};
    std::string name = expectName();
    for (const auto &[known, parse] : blocks)
      if (name == known)
        return (this->*parse)();
    fail("the statement " + quote(name) + " is not supported",
         CRIA_UNIMPLEMENTED);
    return {};
  }

  Statement parseIf() {
    Statement statement = make(Kind::If);
    for (bool more = true, last = false; more && ok();) {
      Statement branch = make(Kind::Branch);
      if (!last)
        branch.expressions.push_back(parseTuple());
      closeBlock();
      branch.body =
          last ? parseBody({"endif"}) : parseBody({"elif", "else", "endif"});
      statement.body.push_back(std::move(branch));
      more = ok() && !atBlock({"endif"});
      if (more) {
        take();
        last = take().text == "else";
      }
    }
    endBlock("endif");
    return statement;
  }

  std::vector<std::string> parseTargets() {
    bool parentheses = skipOperator("(");
    std::vector<std::string> targets;
    do {
      if (atOperator("("))
        fail("a tuple of names among names is not supported",
             CRIA_UNIMPLEMENTED);
      targets.push_back(expectName());
    } while (ok() && skipOperator(","));
    if (parentheses)
      expectOperator(")");
    return targets;
  }

  Statement parseFor() {
    Statement statement = make(Kind::For);
    statement.targets = parseTargets();
    if (std::find(statement.targets.begin(), statement.targets.end(), "loop") !=
        statement.targets.end())
      fail("'loop' is the loop's own variable");
    if (!skipName("in"))
      unexpected("'in'");
    statement.expressions.push_back(parseTuple(false));
    if (skipName("if"))
      statement.expressions.push_back(parseExpression());
    if (atName("recursive"))
      fail("a recursive loop is not supported", CRIA_UNIMPLEMENTED);
    closeBlock();
    ++loops;
    statement.body = parseBody({"else", "endfor"});
    --loops;
    if (ok() && atBlock({"else"})) {
      endBlock("else");
      statement.otherwise = parseBody({"endfor"});
    }
    endBlock("endfor");
    return statement;
  }

  Statement parseSet() {
    Statement statement = make(Kind::Set);
    statement.targets = parseTargets();
    if (skipOperator("."))
      statement.text = expectName();
    if (skipOperator("=")) {
      statement.expressions.push_back(parseTuple());
      closeBlock();
      return statement;
    }
    statement.kind = Kind::SetBlock;
    if (statement.targets.size() > 1 || !statement.text.empty())
      unexpected("'='");
    statement.expressions.push_back(parseFilters(bodyOf(statement)));
    closeBlock();
    statement.body = parseBody({"endset"});
    endBlock("endset");
    return statement;
  }

  /// The text of a block, as the input of filters: see the evaluator.
  static Expression bodyOf(const Statement &statement) {
    Expression body;
    body.kind = Expression::Kind::Name;
    body.name = blockBody;
    body.line = statement.line;
    return body;
  }

  Statement parseFilterBlock() {
    Statement statement = make(Kind::SetBlock);
    statement.expressions.push_back(
        parseFilters(parseFilter(bodyOf(statement))));
    closeBlock();
    statement.body = parseBody({"endfilter"});
    endBlock("endfilter");
    return statement;
  }

  Statement parseWith() {
    Statement statement = make(Kind::With);
    while (ok() && peek().kind != Token::Kind::CloseBlock) {
      if (!statement.targets.empty())
        expectOperator(",");
      statement.targets.push_back(expectName());
      expectOperator("=");
      statement.expressions.push_back(parseExpression());
    }
    closeBlock();
    statement.body = parseBody({"endwith"});
    endBlock("endwith");
    return statement;
  }

  Statement parseMacro() {
    Statement statement = make(Kind::Macro);
    statement.text = expectName();
    parseSignature(statement);
    closeBlock();
    parseMacroBody(statement, "endmacro");
    return statement;
  }

  void parseSignature(Statement &macro) {
    expectOperator("(");
    while (ok() && !atOperator(")")) {
      if (macro.targets.size() == maxArguments)
        fail("a macro with more than " + std::to_string(maxArguments) +
                 " arguments is not supported",
             CRIA_UNIMPLEMENTED);
      macro.targets.push_back(expectName());
      if (skipOperator("="))
        macro.expressions.push_back(parseExpression());
      else if (!macro.expressions.empty())
        unexpected("a default");
      if (!skipOperator(","))
        break;
    }
    expectOperator(")");
  }

  /// Also notes what the macro takes besides its arguments: what it reads.
  void parseMacroBody(Statement &macro, std::string_view end) {
    int outside = std::exchange(loops, 0);
    bool caller = std::exchange(namesCaller, false);
    bool varargs = std::exchange(namesVarargs, false);
    bool kwargs = std::exchange(namesKwargs, false);
    macro.body = parseBody({end});
    macro.takesCaller = namesCaller;
    macro.takesMore = namesVarargs;
    macro.takesMoreNamed = namesKwargs;
    namesCaller |= caller;
    namesVarargs |= varargs;
    namesKwargs |= kwargs;
    loops = outside;
    endBlock(end);
  }

  Statement parseCall() {
    Statement statement = make(Kind::Call);
    Statement caller = make(Kind::Macro);
    caller.text = "caller";
    if (atOperator("("))
      parseSignature(caller);
    statement.expressions.push_back(parseExpression());
    if (statement.expressions[0].kind != Expression::Kind::Call)
      unexpected("a call");
    closeBlock();
    parseMacroBody(caller, "endcall");
    statement.body.push_back(std::move(caller));
    return statement;
  }

  Statement parseJump(Kind kind, const char *name) {
    Statement statement = make(kind);
    if (loops == 0)
      fail(std::string("'") + name + "' outside of a loop");
    closeBlock();
    return statement;
  }
  Statement parseBreak() { return parseJump(Kind::Break, "break"); }
  Statement parseContinue() { return parseJump(Kind::Continue, "continue"); }

  /// The block marks the assistant's text for training. Here it is text like
  /// any other.
  Statement parseGeneration() {
    Statement statement = make(Kind::Block);
    closeBlock();
    statement.body = parseBody({"endgeneration"});
    endBlock("endgeneration");
    return statement;
  }

  int nesting = 0;
  int loops = 0; // around the current statement
};

} // namespace

Result<std::vector<Statement>> parse(std::string_view source) {
  Result<std::vector<Token>> tokens = tokenize(source);
  if (!tokens.ok())
    return tokens.status();
  return Parser(std::move(*tokens)).run();
}

} // namespace cria::chat
